# Several sources of a layer are compiled as one translation unit, which reads their headers and instantiates their
# templates once. Names in unnamed namespaces must differ within a unit. SMELT_UNITY=OFF (the debug preset) compiles every source alone.
option(SMELT_UNITY "Compile several sources as one translation unit" ON)

# Names that each source may define for itself: a unit appends the source's identifier to them. No header may
# declare them.
set(SMELT_FILE_LOCAL_NAMES kEntries kOps kShaders kRows kDepthwise kDims kInf kNan)
string(CONCAT SMELT_FILE_LOCAL "// Names of one source\n"
  "#define SMELT_PASTE2(name, id) name##_##id\n" "#define SMELT_PASTE(name, id) SMELT_PASTE2(name, id)\n")
foreach(name ${SMELT_FILE_LOCAL_NAMES})
  string(APPEND SMELT_FILE_LOCAL "#define ${name} SMELT_PASTE(${name}, SMELT_SOURCE_ID)\n")
endforeach()

# smelt_unity(TARGET SIZE [JOIN] [APART LINE]): units of at most SIZE sources of one folder; JOIN: small folders share a unit.
# Sources of vector code (Highway, intrinsics, unrolled loops) stay alone: the code around them must not change what is
# inlined. So do the steps of a run, and sources with definitions of their own. Sources with a line that matches the
# regular expression LINE make one unit a folder.
function(smelt_unity target size)
  cmake_parse_arguments(PARSE_ARGV 2 arg "JOIN" "APART" "")
  if(NOT SMELT_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  set(folders)
  foreach(source ${sources})
    if(source MATCHES "/runtime/(loop_values|plan|planned_environment)\\.cc$" OR
       NOT source MATCHES "^${PROJECT_SOURCE_DIR}/((src|tests)/.*)/[^/]*\\.cc$")
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${CMAKE_MATCH_1} folder)
    file(STRINGS ${source} alone REGEX "foreach_target\\.h|-inl\\.h\"|immintrin\\.h|GCC unroll" LIMIT_COUNT 1)
    set(apart)
    if(arg_APART)
      file(STRINGS ${source} apart REGEX "${arg_APART}" LIMIT_COUNT 1)
    endif()
    if(apart)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_apart)
    elseif(NOT alone)
      list(APPEND folders ${folder})
      list(APPEND sources_${folder} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(unit)
  foreach(folder ${folders} end)
    list(LENGTH unit count)
    list(LENGTH sources_${folder} more)
    math(EXPR more "${count} + ${more}")
    if(more GREATER size OR NOT arg_JOIN OR folder STREQUAL end)
      smelt_units(${size} "${arg_JOIN}" ${unit})
      set(unit)
    endif()
    list(APPEND unit ${sources_${folder}})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
    UNITY_BUILD_UNIQUE_ID SMELT_SOURCE_ID UNITY_BUILD_CODE_BEFORE_INCLUDE "${SMELT_FILE_LOCAL}")
endfunction()

# smelt_units(SIZE EQUAL SOURCES...): groups of SIZE sources, the last one smaller, or EQUAL ones of at most SIZE sources. They
# are named by the first folder.
function(smelt_units size equal)
  list(LENGTH ARGN count)
  math(EXPR units "(${count} + ${size} - 1) / ${size}")
  set(index 0)
  foreach(source ${ARGN})
    if(index EQUAL 0)
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
      get_filename_component(name ${name} DIRECTORY)
      string(MAKE_C_IDENTIFIER ${name} name)
    endif()
    if(equal)
      math(EXPR unit "${index} * ${units} / ${count}")
    else()
      math(EXPR unit "${index} / ${size}")
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${unit})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# smelt_precompile(TARGET HEADERS...): parses the standard library's headers and HEADERS once, in front of every source of
# a target. Lint compiles without it (SMELT_PRECOMPILE=OFF), so that a source includes what it uses.
option(SMELT_PRECOMPILE "Precompile headers" ${SMELT_UNITY})

# False reports of GCC 12, which takes the standard library's strings for the project's behind a precompiled header.
function(smelt_precompiled_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds$<SEMICOLON>-Wno-stringop-overflow$<SEMICOLON>-Wno-stringop-overread>)
endfunction()

function(smelt_precompile target)
  if(SMELT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstring> <functional> <limits> <map> <memory>
      <numeric> <optional> <set> <span> <string> <unordered_map> <utility> <variant> <vector> ${ARGN})
    smelt_precompiled_warnings(${target})
  endif()
endfunction()

# smelt_precompiled_by(TARGET OTHER): TARGET takes the precompiled headers of OTHER, which has the same compile options.
function(smelt_precompiled_by target other)
  if(SMELT_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${other})
    smelt_precompiled_warnings(${target})
  endif()
endfunction()
