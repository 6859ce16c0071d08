// Reductions over rows: kLanes neighbouring invocations, 1 or the whole workgroup, work on one row together.
layout(constant_id = 1) const uint kLanes = 1;

uint row_id() { return kLanes == 1 ? flat_id() : flat_group(); }
uint row_lane() { return kLanes == 1 ? 0 : gl_LocalInvocationID.x; }

#define kInfinity uintBitsToFloat(0x7f800000u)

// The fold of one value of each lane, known to all of them. `a` and `b` are the values that `combine` joins, in either
// order. SUBGROUPS: lanes of a subgroup see each other's values; workgroups are whole subgroups.
#ifdef SUBGROUPS
#define ROW_FOLD(name, type, combine)                                              \
  shared type name##_parts[256];                                                   \
  type name(type v) {                                                              \
    if (kLanes == 1) return v;                                                     \
    for (uint step_ = gl_SubgroupSize / 2; step_ > 0; step_ /= 2) {                \
      const type a = v, b = subgroupShuffleXor(v, step_);                          \
      v = combine;                                                                 \
    }                                                                              \
    barrier();                                                                     \
    if (gl_SubgroupInvocationID == 0) name##_parts[gl_SubgroupID] = v;             \
    barrier();                                                                     \
    v = name##_parts[0];                                                           \
    for (uint k_ = 1; k_ < gl_NumSubgroups; ++k_) {                                \
      const type a = v, b = name##_parts[k_];                                      \
      v = combine;                                                                 \
    }                                                                              \
    return v;                                                                      \
  }
#else
#define ROW_FOLD(name, type, combine)                                \
  shared type name##_parts[256];                                     \
  type name(type v) {                                                \
    if (kLanes == 1) return v;                                       \
    const uint i_ = gl_LocalInvocationID.x;                          \
    barrier();                                                       \
    name##_parts[i_] = v;                                            \
    for (uint step_ = kLanes / 2; step_ > 0; step_ /= 2) {           \
      barrier();                                                     \
      if (i_ < step_) {                                              \
        const type a = name##_parts[i_], b = name##_parts[i_ + step_]; \
        name##_parts[i_] = combine;                                  \
      }                                                              \
    }                                                                \
    barrier();                                                       \
    return name##_parts[0];                                          \
  }
#endif
