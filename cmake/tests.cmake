find_package(GTest REQUIRED)

# Golden cases: tests/corpus/*.tar.xz are unpacked into the build tree.
file(GLOB SMELT_CORPUS_PACKS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/corpus/*.tar.xz)
set(SMELT_CORPUS_STAMPS)
foreach(pack ${SMELT_CORPUS_PACKS})
  get_filename_component(name ${pack} NAME_WE)
  set(stamp ${CMAKE_BINARY_DIR}/corpus/${name}.stamp)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/corpus/${name}  # cases that have left the pack
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/corpus
    COMMAND ${CMAKE_COMMAND} -E chdir ${CMAKE_BINARY_DIR}/corpus ${CMAKE_COMMAND} -E tar xf ${pack}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${pack}
    COMMENT "Golden cases of ${name}")
  list(APPEND SMELT_CORPUS_STAMPS ${stamp})
endforeach()
add_custom_target(smelt_corpus DEPENDS ${SMELT_CORPUS_STAMPS})

file(GLOB_RECURSE SMELT_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.cc ${PROJECT_SOURCE_DIR}/tests/suites/*_test.cc)
list(FILTER SMELT_TEST_SOURCES EXCLUDE REGEX "/src/onnxifi/|corpus_test\\.cc$")
set(SMELT_TEST_SUPPORT ${PROJECT_SOURCE_DIR}/tests/support/allocations.cc
  ${PROJECT_SOURCE_DIR}/tests/support/leaks.cc ${PROJECT_SOURCE_DIR}/tests/support/paths.cc)

function(smelt_test_executable name)
  add_executable(${name} ${ARGN} ${SMELT_TEST_SUPPORT})
  target_link_libraries(${name} PRIVATE smelt_engine nlohmann_json::nlohmann_json GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # sooner compiled
  smelt_unity(${name} 8)
  smelt_precompile(${name} <gtest/gtest.h> <ops/core/op.h> <smelt/model.h> <tensor/numeric.h>)
endfunction()
set_source_files_properties(${SMELT_TEST_SUPPORT} PROPERTIES COMPILE_DEFINITIONS
  "SMELT_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\";SMELT_BINARY_DIR=\"${CMAKE_BINARY_DIR}\"")

# smelt_shards(NAME TARGET COUNT): the tests of a suite in COUNT processes, NAME_0 and on. Each notes what it covers.
set(SMELT_COVERAGE_DIR ${CMAKE_BINARY_DIR}/coverage)
function(smelt_shards name target count)
  math(EXPR last "${count} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}_${shard} COMMAND ${target} --gtest_brief=1)
    set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT 1800 ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${shard};SMELT_COVERAGE=${SMELT_COVERAGE_DIR}/${name}_${shard}.txt")
  endforeach()
endfunction()

set(SMELT_SHARDS 6)
include(bench/kernels/cases.cmake)
smelt_test_executable(smelt_tests ${SMELT_TEST_SOURCES} ${SMELT_BENCH_CASES})
target_link_libraries(smelt_tests PRIVATE smelt_cli)
smelt_shards(unit_tests smelt_tests ${SMELT_SHARDS})
# Behind all shards: every kernel and shader of the lists is in their records.
add_test(NAME coverage_begins COMMAND ${CMAKE_COMMAND} -E rm -rf ${SMELT_COVERAGE_DIR})
set_tests_properties(coverage_begins PROPERTIES FIXTURES_SETUP coverage_folder)
add_test(NAME unit_tests_cover_every_kernel COMMAND smelt_tests --gtest_brief=1 --gtest_filter=Coverage.*)
set_tests_properties(unit_tests_cover_every_kernel PROPERTIES
  FIXTURES_REQUIRED coverage_records ENVIRONMENT "SMELT_COVERAGE_RECORDS=${SMELT_COVERAGE_DIR}")
math(EXPR last "${SMELT_SHARDS} - 1")
foreach(shard RANGE ${last})
  set_tests_properties(unit_tests_${shard} PROPERTIES FIXTURES_REQUIRED coverage_folder FIXTURES_SETUP coverage_records)
endforeach()
if(NOT SMELT_SANITIZE)
  foreach(processor_and_shard Nehalem:0:1 Haswell-noTSX:0:2 Haswell-noTSX:1:2)  # SSE4.2, AVX2; shard, shards
    string(REGEX MATCH "^(.*):(.):(.)$" matched ${processor_and_shard})
    set(test older_processor_${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
    add_test(NAME ${test}
      COMMAND ${PROJECT_SOURCE_DIR}/tests/older_processor_test.sh $<TARGET_FILE:smelt_tests> ${CMAKE_MATCH_1} ${PROJECT_SOURCE_DIR})
    # COST: the longest begin first, so that none runs alone at the end.
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 2400 COST 200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${CMAKE_MATCH_3};GTEST_SHARD_INDEX=${CMAKE_MATCH_2}")
  endforeach()
endif()

smelt_test_executable(smelt_corpus_tests tests/suites/corpus_test.cc tests/suites/convert_corpus_test.cc
  tests/suites/convert_round_trip_test.cc tests/suites/abi_corpus_test.cc tests/suites/allocation_corpus_test.cc
  tests/suites/device_memory_test.cc src/onnxifi/element.cc)
target_link_libraries(smelt_corpus_tests PRIVATE smelt_cli)
target_compile_definitions(smelt_corpus_tests PRIVATE SMELT_ONNXIFI="$<TARGET_FILE:onnxifi>")
add_dependencies(smelt_corpus_tests smelt_corpus onnxifi)
smelt_shards(corpus smelt_corpus_tests 4)

# ONNX test folders through the C ABI: tests/onnx_node_tests.py --abi runs it.
add_executable(smelt_abi_nodes tests/abi_nodes.cc src/onnxifi/element.cc)
target_link_libraries(smelt_abi_nodes PRIVATE smelt_engine smelt_cli)
target_include_directories(smelt_abi_nodes PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(smelt_abi_nodes onnxifi)

set(digits ${PROJECT_SOURCE_DIR}/examples/digits)
add_test(NAME inspect_page COMMAND ${PROJECT_SOURCE_DIR}/tests/page_test.py $<TARGET_FILE:smelt_command>
  ${digits}/digits_int8.tflite ${digits}/digits.onnx ${digits}/digits_portable.pte ${digits}/digits_xnnpack_int8.pte
  ${digits}/digits_vulkan.pte ${digits}/digits.bpte)
set_tests_properties(inspect_page PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
add_test(NAME digits_example COMMAND ${PROJECT_SOURCE_DIR}/tests/digits_test.sh $<TARGET_FILE:smelt_command> ${digits})
add_test(NAME command_line COMMAND ${PROJECT_SOURCE_DIR}/tests/command_test.sh $<TARGET_FILE:smelt_command> ${digits})
# Not Python3_EXECUTABLE: a build of the wheel sets that to the interpreter of its venv.
find_program(SMELT_TEST_PYTHON python3 REQUIRED)
add_test(NAME command_cases COMMAND ${SMELT_TEST_PYTHON} ${PROJECT_SOURCE_DIR}/tests/command_cases.py
  $<TARGET_FILE:smelt_command> ${digits} ${PROJECT_SOURCE_DIR}/docs/schemas)
add_test(NAME trace COMMAND ${SMELT_TEST_PYTHON} ${PROJECT_SOURCE_DIR}/tests/trace_test.py $<TARGET_FILE:smelt_command>
  ${digits})
add_test(NAME diff COMMAND ${SMELT_TEST_PYTHON} ${PROJECT_SOURCE_DIR}/tests/diff_test.py $<TARGET_FILE:smelt_command>
  ${digits} ${PROJECT_SOURCE_DIR}/../shared/corpus)
# Slow under a sanitizer, which the suites on the device are run with as well.
if(NOT SMELT_SANITIZE)
  add_test(NAME vulkan_validation COMMAND ${PROJECT_SOURCE_DIR}/tests/vulkan_validation_test.sh $<TARGET_FILE:smelt_command>
    ${CMAKE_BINARY_DIR}/corpus/vulkan/seed ${CMAKE_BINARY_DIR}/corpus/onnx/nets ${CMAKE_BINARY_DIR}/corpus/tflite/nets)
  set_tests_properties(vulkan_validation PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1200 COST 500)
  add_test(NAME install COMMAND ${PROJECT_SOURCE_DIR}/tests/install_test.sh ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
endif()

add_executable(smelt_generate ${PROJECT_SOURCE_DIR}/examples/decoder/generate.cc)
target_link_libraries(smelt_generate PRIVATE smelt_engine)
add_test(NAME decoder_tokens COMMAND ${PROJECT_SOURCE_DIR}/tests/tokens_test.sh $<TARGET_FILE:smelt_generate>
  ${PROJECT_SOURCE_DIR}/examples/decoder)
add_test(NAME decoder_peer COMMAND ${SMELT_TEST_PYTHON} ${PROJECT_SOURCE_DIR}/tests/decoder_test.py $<TARGET_FILE:smelt_generate>)
set_tests_properties(decoder_peer PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800)

# The C interface from C99, with an operator from a library.
add_library(smelt_clipped_scale MODULE ${PROJECT_SOURCE_DIR}/examples/custom_operator/clipped_scale.c)
target_include_directories(smelt_clipped_scale PRIVATE ${PROJECT_SOURCE_DIR}/include)
add_executable(smelt_c_api_c99 ${PROJECT_SOURCE_DIR}/tests/abi/c_api_client.c)
target_link_libraries(smelt_c_api_c99 PRIVATE smelt_shared m)
add_dependencies(smelt_c_api_c99 smelt_clipped_scale)
foreach(target smelt_clipped_scale smelt_c_api_c99)
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF PREFIX "")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -pedantic)
endforeach()
set(custom ${PROJECT_SOURCE_DIR}/examples/custom_operator)
add_test(NAME c_api COMMAND smelt_c_api_c99 ${digits} $<TARGET_FILE:smelt_clipped_scale> ${custom}/clipped_scale.tflite)
add_test(NAME race_report COMMAND ${SMELT_TEST_PYTHON} ${PROJECT_SOURCE_DIR}/tests/race_report_test.py
  $<TARGET_FILE:smelt_command>)
add_test(NAME readme COMMAND ${SMELT_TEST_PYTHON} ${PROJECT_SOURCE_DIR}/tests/readme_test.py $<TARGET_FILE:smelt_command>
  ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
add_test(NAME examples COMMAND ${PROJECT_SOURCE_DIR}/tests/examples_test.sh $<TARGET_FILE:smelt_command>
  ${PROJECT_SOURCE_DIR}/examples)
# A sanitizer adds symbols of its own.
if(NOT SMELT_SANITIZE)
  add_test(NAME exports COMMAND ${PROJECT_SOURCE_DIR}/tests/exports_test.sh $<TARGET_FILE:smelt_shared>
    ${PROJECT_SOURCE_DIR}/tests/abi/c_api_symbols.txt)
  add_test(NAME packages COMMAND ${PROJECT_SOURCE_DIR}/tests/packages_test.sh ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(packages PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
