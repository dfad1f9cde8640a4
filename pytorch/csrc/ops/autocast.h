/* SPDX-License-Identifier: MIT */
/* Registers the autocast kernels of the device; once. */
#pragma once

namespace acre_torch {

void autocast_serve();

} // namespace acre_torch
