#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// Table of a real function on 8-bit quantized values, as TFLite builds it: entry i is the result for the byte i.
std::array<uint8_t, 256> byte_table(DType dtype, float in_scale, int32_t in_zero, float out_scale, int32_t out_zero,
                                    const std::function<float(float)>& f);

/// Table of a real function on 16-bit quantized values: 512 linear segments, their ends shifted to halve the error at
/// midpoints. The function is evaluated in T (float, or double in softmax).
template <class T>
std::vector<int16_t> word_table(T in_scale, int32_t in_zero, T out_scale, int32_t out_zero,
                                const std::function<T(T)>& f);
extern template std::vector<int16_t> word_table<float>(float, int32_t, float, int32_t,
                                                       const std::function<float(float)>&);
extern template std::vector<int16_t> word_table<double>(double, int32_t, double, int32_t,
                                                        const std::function<double(double)>&);
/// f(value) by linear interpolation in a table of word_table().
int16_t look_up(int16_t value, const std::vector<int16_t>& table);

}  // namespace smelt
