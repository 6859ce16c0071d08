add_library(smelt_flags INTERFACE)
target_compile_options(smelt_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wno-psabi
  -Wno-subobject-linkage)  # a class of a source that is included in a unit (cmake/unity.cmake)
if(SMELT_WERROR)
  target_compile_options(smelt_flags INTERFACE -Werror)
endif()
# The compiler may not fuse a*b+c on its own: results must not depend on the target of a translation unit.
target_compile_options(smelt_flags INTERFACE -ffp-contract=off -fno-math-errno)
# The linker leaves out what nothing uses.
target_compile_options(smelt_flags INTERFACE -ffunction-sections -fdata-sections)
# Tables for unwinding exist only of functions that exceptions may pass.
target_compile_options(smelt_flags INTERFACE $<$<CONFIG:Release>:-fno-asynchronous-unwind-tables>)
# The compiler tells functions that exceptions may pass where it writes tables itself (-fno-dwarf2-cfi-asm). unwind_rows.py
# makes directives of them that are right at calls, where exceptions pass, not behind every push: a quarter of their size.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(SMELT_ASSEMBLER as)
if(SMELT_ASSEMBLER)
  execute_process(COMMAND ${SMELT_ASSEMBLER} --version OUTPUT_VARIABLE version)
  string(REGEX MATCH "GNU assembler.* ([0-9]+\\.[0-9]+)" version "${version}")
endif()
if(CMAKE_MATCH_1 VERSION_GREATER_EQUAL 2.35 AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND
   CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND NOT CMAKE_CROSSCOMPILING AND Python3_VERSION VERSION_GREATER_EQUAL 3.10)
  # The compiler looks for its assembler in the folders of -B first.
  set(rows ${CMAKE_CURRENT_LIST_DIR}/unwind_rows.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows})
  file(MD5 ${rows} version)  # another version is another option, so that all is assembled again
  set(assembler assembler/${version})  # from the build folder, where Ninja compiles: caches know no other path
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)"  # itself, not a script that finds it
    OUTPUT_VARIABLE python OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(WRITE ${CMAKE_BINARY_DIR}/${assembler}/as "#!/bin/sh\nexec ${python} -I -S ${rows} ${SMELT_ASSEMBLER} \"$@\"\n")
  file(CHMOD ${CMAKE_BINARY_DIR}/${assembler}/as PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
  add_compile_options($<$<CONFIG:Release>:-B${assembler}> $<$<CONFIG:Release>:-fno-dwarf2-cfi-asm>)
endif()
add_link_options(-Wl,--gc-sections)
if(SMELT_SANITIZE)
  add_compile_options(-fsanitize=${SMELT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SMELT_SANITIZE})
endif()
find_program(SMELT_LLD NAMES ld.lld-16 ld.lld)
if(SMELT_LLD AND NOT CMAKE_CROSSCOMPILING)  # which a cross compiler does not find
  # The compiler looks for ld.lld, without a version, in the folders of -B first.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/linker)
  file(CREATE_LINK ${SMELT_LLD} ${CMAKE_BINARY_DIR}/linker/ld.lld SYMBOLIC)
  add_link_options(-B${CMAKE_BINARY_DIR}/linker -fuse-ld=lld)
  # Functions with the same code are one, constants of the same bytes too: no code compares addresses of either.
  add_link_options($<$<CONFIG:Release>:-Wl,--icf=all> $<$<CONFIG:Release>:-Wl,--ignore-data-address-equality>)
  # Functions that run together lie together, in few pages (function_order.py).
  set(order ${CMAKE_CURRENT_LIST_DIR}/function_order.tar.xz)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${order})
  file(MD5 ${order} version)  # another order is another option, so that all is linked again
  set(unpacked ${CMAKE_BINARY_DIR}/linker/${version})
  file(ARCHIVE_EXTRACT INPUT ${order} DESTINATION ${unpacked})
  add_link_options($<$<CONFIG:Release>:-Wl,--symbol-ordering-file=${unpacked}/function_order.txt>
    $<$<CONFIG:Release>:-Wl,--no-warn-symbol-ordering>)  # about names that are gone
  # Strings that end others are merged with them.
  add_link_options($<$<CONFIG:Release>:-Wl,-O2>)
  # Addresses that loading relocates, as bitmaps: a tenth of their size. glibc reads them from 2.36 on.
  execute_process(COMMAND ${SMELT_LLD} --version OUTPUT_VARIABLE version)
  string(REGEX MATCH "LLD ([0-9]+)" version "${version}")
  include(CheckCXXSourceCompiles)
  check_cxx_source_compiles("#include <features.h>
    #if !__GLIBC_PREREQ(2, 36)
    #error
    #endif
    int main() {}" SMELT_GLIBC_READS_RELR)
  if(CMAKE_MATCH_1 GREATER_EQUAL 15 AND SMELT_GLIBC_READS_RELR)
    add_link_options(-Wl,-z,pack-relative-relocs)
  endif()
endif()
# GCC collects garbage only once a unit's trees fill 400 MB: units compile 4 to 16 % sooner.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=400000>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=200>)
