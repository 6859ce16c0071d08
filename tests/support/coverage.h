#pragma once

namespace smelt::test {

/// Records that kernel NAME of the CPU's list was compared with the reference kernel; Coverage.EveryKernelAndShader
/// asks that some test does.
void note_compared(const char* name);

/// Records the shaders that the Vulkan device has run since it was opened. To be called before its last user ends.
void note_shaders();

}  // namespace smelt::test
