# Every schemas/*.fbs becomes NAME_generated.h in the build tree.
find_package(flatbuffers CONFIG QUIET)
find_program(SMELT_FLATC flatc REQUIRED)
file(GLOB SMELT_SCHEMAS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schemas/*.fbs)
set(SMELT_SCHEMA_DIR ${CMAKE_BINARY_DIR}/schemas)
set(SMELT_SCHEMA_HEADERS)
foreach(schema ${SMELT_SCHEMAS})
  get_filename_component(name ${schema} NAME_WE)
  set(header ${SMELT_SCHEMA_DIR}/${name}_generated.h)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${SMELT_FLATC} --cpp --cpp-std c++17 --scoped-enums -I ${PROJECT_SOURCE_DIR}/schemas -o ${SMELT_SCHEMA_DIR} ${schema}
    DEPENDS ${SMELT_SCHEMAS}
    COMMENT "Schema ${name}")
  list(APPEND SMELT_SCHEMA_HEADERS ${header})
endforeach()
# Binary schemas of operators' attributes, packed, for their names and defaults where attributes are shown; the
# enumerations of TFLite's, which are checked with every model.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(SMELT_BINARY_SCHEMA ${SMELT_FLATC} -b --schema -I ${PROJECT_SOURCE_DIR}/schemas -o ${SMELT_SCHEMA_DIR}/binary)
set(SMELT_PACK_SCHEMA ${PROJECT_SOURCE_DIR}/cmake/pack_schema.py)
set(SMELT_SCHEMA_ENUMS ${PROJECT_SOURCE_DIR}/cmake/schema_enums.py)
foreach(name tflite xnnpack_graph)
  set(schema ${SMELT_SCHEMA_DIR}/binary/${name})
  add_custom_command(OUTPUT ${schema}.bfbs ${schema}_schema.h DEPENDS ${SMELT_SCHEMAS} ${SMELT_PACK_SCHEMA}
    COMMENT "Binary schema ${name}"
    COMMAND ${SMELT_BINARY_SCHEMA} ${PROJECT_SOURCE_DIR}/schemas/${name}.fbs
    COMMAND ${Python3_EXECUTABLE} ${SMELT_PACK_SCHEMA} ${schema}_schema.h ${name}_schema ${schema}.bfbs)
  list(APPEND SMELT_SCHEMA_HEADERS ${schema}_schema.h)
endforeach()
set(schema ${SMELT_SCHEMA_DIR}/binary/tflite)
add_custom_command(OUTPUT ${schema}_enums.h DEPENDS ${schema}.bfbs ${SMELT_SCHEMA_ENUMS} COMMENT "Enumerations of tflite"
  COMMAND ${Python3_EXECUTABLE} ${SMELT_SCHEMA_ENUMS} ${schema}_enums.h tflite_operator_enums ${schema}.bfbs smelt.tfl.Operator)
list(APPEND SMELT_SCHEMA_HEADERS ${schema}_enums.h)
add_custom_target(smelt_schemas DEPENDS ${SMELT_SCHEMA_HEADERS})
