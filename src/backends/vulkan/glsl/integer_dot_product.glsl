// OpSDot of packed words (format 0): the sum of the products of four int8 each. Include after common.glsl, with
// GL_EXT_spirv_intrinsics.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_int8(int a, int b, spirv_literal int format);
