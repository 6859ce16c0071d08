// Bounds as an activation: NaN stays.
float bounded(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

// Activation behind an operator; gpu_activation() of backends/vulkan/core/activation.h gives the code.
float activate(float x, uint code, float a, float b) {
  switch (code) {
    case 1: return bounded(x, a, b);
    case 2: return tanh(clamp(x, -15.0, 15.0));
    case 3: return (floatBitsToUint(x) >> 31) != 0 ? 1.0 : 0.0;
    case 4: return 1.0 / (1.0 + exp(-x));
    case 5: return x < 0.0 ? a * x : x;
    case 6: return clamp(a * x + b, 0.0, 1.0);
  }
  return x;
}
