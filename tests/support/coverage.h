#pragma once

namespace smelt::test {

/// Kernel NAME of the CPU's list was compared with the reference kernel. A run of all tests fails when it ends and one
/// of the list was not.
void note_compared(const char* name);

/// The same for the shaders that the Vulkan device ran since it was opened. To be called before its last user ends.
void note_shaders();

}  // namespace smelt::test
