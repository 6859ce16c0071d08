# SMELT_BENCH_CASES: the sources of the cases that the kernel benchmarks run, and a unit test as well.
file(GLOB SMELT_BENCH_CASES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/cpu/*/*_bench.cc)
list(APPEND SMELT_BENCH_CASES ${PROJECT_SOURCE_DIR}/bench/kernels/cases.cc ${PROJECT_SOURCE_DIR}/tests/support/op_case.cc
  ${PROJECT_SOURCE_DIR}/tests/support/kernel_runner.cc)
