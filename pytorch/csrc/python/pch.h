/* SPDX-License-Identifier: MIT */
/* What nearly every file of torch_acre/_C.so includes, compiled once. */
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <acre/acre.h>

#include <string>
#include <vector>
