# SPDX-License-Identifier: MIT
"""What torch.compile asks of a device. backend="aot_eager" needs none of it; backends that ask
for streams and properties do: call torch_acre.dynamo.install() before compiling."""
import torch


def interface() -> type:
    """The class that torch._dynamo knows the device by."""
    from torch._dynamo.device_interface import DeviceInterface

    acre = torch.get_device_module(torch._C._get_privateuse1_backend_name())

    class Worker:
        """Facts for compiling in other processes."""
        set_device = staticmethod(acre.set_device)
        current_device = staticmethod(acre.current_device)
        get_device_properties = staticmethod(acre.get_device_properties)

    class AcreInterface(DeviceInterface):
        """The device for torch.compile."""
        device = acre.device
        Event = torch.Event
        Stream = torch.Stream

        current_device = staticmethod(acre.current_device)
        set_device = staticmethod(acre.set_device)
        device_count = staticmethod(acre.device_count)
        is_available = staticmethod(acre.is_available)
        stream = staticmethod(acre.stream)
        current_stream = staticmethod(acre.current_stream)
        set_stream = staticmethod(acre.set_stream)
        synchronize = staticmethod(acre.synchronize)
        get_device_properties = staticmethod(acre.get_device_properties)
        get_compute_capability = staticmethod(lambda device=None: "1.0")
        get_raw_stream = staticmethod(lambda index: acre.current_stream(index).native_handle)
        exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
        maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)
        memory_allocated = staticmethod(acre.memory_allocated)
        is_bf16_supported = staticmethod(lambda including_emulation=False: True)
        is_dtype_supported = classmethod(lambda cls, dtype, including_emulation=False: True)
        is_triton_capable = staticmethod(lambda device=None: False)

        @staticmethod
        def raise_if_triton_unavailable(device=None) -> None:
            raise RuntimeError("Triton does not run on this device; use backend=\"aot_eager\"")

    AcreInterface.Worker = Worker
    return AcreInterface


def install() -> None:
    """Registers the device with torch._dynamo."""
    import torch._dynamo.device_interface as device_interface
    device_interface.register_interface_for_device(
        torch._C._get_privateuse1_backend_name(), interface())
