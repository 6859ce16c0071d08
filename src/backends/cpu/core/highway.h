// <hwy/highway.h> for the target that is compiled: include after <hwy/foreach_target.h> (core/targets.h). What
// core/highway_targets.h has precompiled is not parsed again: only the target's macros are set.
#ifdef SMELT_HIGHWAY_PRECOMPILED
#include <hwy/ops/set_macros-inl.h>
#define HWY_HIGHWAY_INCLUDED
#ifdef HWY_TARGET_TOGGLE  // highway.h declares a target where both are defined or neither is
#undef HWY_HIGHWAY_PER_TARGET
#else
#define HWY_HIGHWAY_PER_TARGET
#endif
#endif
#include <hwy/highway.h>
