// Push constants of an activation.
//@ block GpuActivation act backends/vulkan/core/activation.h
#define ACTIVATION uint act; float act_a, act_b;

// Bounds as an activation: NaN stays.
float bounded(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

// Activation behind an operator; shaders::ActivationCode has the codes.
float activate(float x, uint code, float a, float b) {
  switch (code) {
#include "activation_f32.inc"
  }
  return x;
}
