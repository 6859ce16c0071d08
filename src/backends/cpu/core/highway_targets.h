// Highway's operations for all targets, to be precompiled for sources that are compiled once a target: parsing them
// takes longer than most kernels. The last lines make <hwy/foreach_target.h> begin anew in the source.
#pragma once

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <hwy/highway.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#undef HIGHWAY_HWY_FOREACH_TARGET_H_
#undef HWY_HIGHWAY_INCLUDED
#undef HWY_SET_MACROS_PER_TARGET
#undef HWY_TARGET_INCLUDE
#undef HWY_TARGET_TOGGLE
#define SMELT_HIGHWAY_PRECOMPILED
