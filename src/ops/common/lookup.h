#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// A real function on 8-bit stored values, as TFLite tabulates it: entry i belongs to the byte i.
std::array<uint8_t, 256> byte_table(DType dtype, float in_scale, int32_t in_zero, float out_scale, int32_t out_zero,
                                    const std::function<float(float)>& f);

/// A real function on 16-bit stored values: 512 linear pieces, their ends shifted to halve the error at midpoints.
/// T is the precision of the tabulation (float, or double in softmax).
template <class T>
std::vector<int16_t> word_table(T in_scale, int32_t in_zero, T out_scale, int32_t out_zero,
                                const std::function<T(T)>& f);
extern template std::vector<int16_t> word_table<float>(float, int32_t, float, int32_t,
                                                       const std::function<float(float)>&);
extern template std::vector<int16_t> word_table<double>(double, int32_t, double, int32_t,
                                                        const std::function<double(double)>&);
int16_t look_up(int16_t value, const std::vector<int16_t>& table);

}  // namespace smelt
