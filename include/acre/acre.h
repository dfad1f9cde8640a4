/* SPDX-License-Identifier: MIT */
/** @file acre.h
 *  @brief Includes every public header of Acre.
 */
#ifndef ACRE_ACRE_H
#define ACRE_ACRE_H

#include <acre/base.h>

#include <acre/allocator.h>
#include <acre/async.h>
#include <acre/backend.h>
#include <acre/cache.h>
#include <acre/collective.h>
#include <acre/device.h>
#include <acre/dlpack.h>
#include <acre/explain.h>
#include <acre/file.h>
#include <acre/generator.h>
#include <acre/green.h>
#include <acre/history.h>
#include <acre/hostmem.h>
#include <acre/opencl.h>
#include <acre/output.h>
#include <acre/pinned.h>
#include <acre/plan.h>
#include <acre/planner.h>
#include <acre/pluggable.h>
#include <acre/pool.h>
#include <acre/serialize.h>
#include <acre/share.h>
#include <acre/sim.h>
#include <acre/snapshot.h>
#include <acre/sleep.h>
#include <acre/store.h>
#include <acre/symm.h>
#include <acre/trace.h>
#include <acre/view.h>

#endif
