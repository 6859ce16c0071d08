// Quantization parameters chosen by the range of a row of reals, and the row quantized by them. Include
// real_functions.glsl before.
const uint kSymmetric = 0;         // DynamicRange's rules: ops/elementwise/dynamic_range.h
const uint kAsymmetric = 1;
const uint kBalanced = 2;
const uint kTfliteSymmetric = 3;            // TFLite's: ops/common/dynamic_quant.h
const uint kTfliteAsymmetric = 4;

bool is_finite(float v) { return (floatBitsToUint(v) & 0x7fffffffu) < 0x7f800000u; }

// Quantized values lie within [low, high], and the scale is `epsilon` at least, where the rule has such bounds.
struct QuantParams {
  float scale, inverse;  // inverse 0: values are divided by the scale
  int zero;
  bool none;  // every value becomes 0
};

QuantParams choose_quant_params(uint rule, float least, float most, int low, int high, float epsilon) {
  QuantParams g = QuantParams(1.0, 0.0, 0, false);
  const float lo = float(low), hi = float(high), range = most - least, largest = max(-least, most);
  precise float scale = 1.0, steps = 0.0;
  switch (rule) {
    case kSymmetric:
      scale = max(largest / hi, epsilon);
      g.scale = scale > 0.0 ? scale : 1.0;
      break;
    case kAsymmetric:
      scale = max(range / (hi - lo), epsilon);
      g.scale = scale > 0.0 ? scale : 1.0;
      steps = lo - least / g.scale;
      g.zero = int(roundEven(clamp(steps, lo, hi)));
      break;
    case kBalanced:
      g.inverse = least == most ? 1.0 : (hi - lo) / range;
      if (epsilon > 0.0) g.inverse = min(g.inverse, 1.0 / epsilon);
      if (!is_finite(g.inverse)) g.inverse = 1.0;
      steps = -least * g.inverse;
      g.zero = low + (steps > 0.0 ? int(roundEven(min(steps, hi - lo))) : 0);
      g.scale = 1.0 / g.inverse;
      break;
    case kTfliteSymmetric:
      g.none = !(largest > 0.0) || !is_finite(largest);
      if (g.none) break;
      g.inverse = 127.0 / largest;
      g.scale = largest / 127.0;
      break;
    default:
      g.none = !(range > 0.0) || !is_finite(range);
      if (g.none) break;
      g.scale = range / 255.0;
      g.inverse = 1.0 / g.scale;
      steps = 128.0 - least / g.scale < 127.0 + most / g.scale ? -128.0 - least / g.scale : 127.0 - most / g.scale;
      g.zero = int(clamp(round_half_away(steps), -128.0, 127.0));
  }
  return g;
}

// The quantized value of x.
float quantized_value(uint rule, float x, QuantParams g, int low, int high) {
  precise float r = g.inverse != 0.0 ? x * g.inverse : x / g.scale;
  if (g.none) return 0.0;
  if (rule == kTfliteSymmetric) return clamp(round_half_away(r), -127.0, 127.0);
  if (rule == kTfliteAsymmetric) return clamp(float(g.zero) + round_half_away(r), -128.0, 127.0);
  if (is_nan(r)) return clamp(0.0, float(low), float(high));
  r = roundEven(clamp(r, -1e6, 1e6)) + float(g.zero);
  return clamp(r, float(low), float(high));
}
