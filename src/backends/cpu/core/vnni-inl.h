// Intrinsics of AVX-512 VNNI, a target that Highway's release lacks: functions between SMELT_BEFORE_VNNI and
// SMELT_AFTER_VNNI are compiled for it.
#pragma once

#if defined(__x86_64__)
#if !defined(__clang__)  // GCC's own headers start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <hwy/base.h>
#include <immintrin.h>

#define SMELT_BEFORE_VNNI HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define SMELT_AFTER_VNNI HWY_POP_ATTRIBUTES
#endif
