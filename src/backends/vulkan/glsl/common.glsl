// What every shader shares. Variants define ELEMENT, the type of elements in buffers; arithmetic is in 32 bits.
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : enable
#extension GL_EXT_shader_8bit_storage : enable
#extension GL_EXT_shader_16bit_storage : enable
#extension GL_EXT_control_flow_attributes : enable
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

// Specialization constant 0 is the workgroup's width; a shader's own begin at 1.
layout(local_size_x_id = 0) in;

// Push constants of shaders that work along the middle of [outer, extent, inner]: rows is outer * inner.
//@ block AxisPush axis backends/vulkan/core/row_reduction.h
#define AXIS uint rows, extent, inner;

// The place of this invocation, or of its workgroup, in a one-dimensional problem; QuantParams::flat() makes the grid.
uint flat_id() {
  return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}
uint flat_group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
