// Reductions over rows: kLanes neighbouring invocations, 1 or the whole workgroup, work on one row together.
layout(constant_id = 1) const uint kLanes = 1;

uint row_id() { return kLanes == 1 ? flat_id() : flat_group(); }
uint row_lane() { return kLanes == 1 ? 0 : gl_LocalInvocationID.x; }

#define kInfinity uintBitsToFloat(0x7f800000u)

// The fold of one value of each lane, known to all of them. `a` and `b` are the values that `combine` joins.
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
