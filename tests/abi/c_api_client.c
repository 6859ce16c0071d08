/* The C interface from plain C99, as a program that is linked against libsmelt.so.
 *     c_api_client DIGITS_FOLDER OPERATOR_LIBRARY CUSTOM_MODEL */
#include <math.h>
#include <smelt/smelt.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      printf("FAILED line %d: %s (%s)\n", __LINE__, #condition, smelt_error_message()); \
      ++failures;                                                                       \
    }                                                                                   \
  } while (0)

static const int64_t kImage[4] = {1, 1, 8, 8};
static float pixels[64];

static void errors(void) {
  smelt_model* model = (smelt_model*)&failures;
  CHECK(smelt_model_load("there is no such file", NULL, &model) == SMELT_IO);
  CHECK(model == NULL && strstr(smelt_error_message(), "there is no such file"));
  CHECK(smelt_model_load(NULL, NULL, &model) == SMELT_INVALID_INPUT);
  CHECK(smelt_model_load("x", NULL, NULL) == SMELT_INVALID_INPUT);
  CHECK(smelt_model_load_bytes("no model", 8, "bytes", NULL, &model) == SMELT_INVALID_MODEL);
  CHECK(strstr(smelt_error_message(), "bytes: "));
  CHECK(strcmp(smelt_status_name(SMELT_LIMIT), "limit reached") == 0 && strcmp(smelt_status_name(SMELT_OK), "ok") == 0);
  CHECK(strcmp(smelt_version(), SMELT_VERSION_STRING) == 0);
  CHECK(strcmp(smelt_type_name(SMELT_BFLOAT16), "bfloat16") == 0);
  smelt_model_free(NULL);
  smelt_session_free(NULL);
  smelt_value_free(NULL);
  smelt_pool_free(NULL);
}

static void values(void) {
  const int64_t dims[2] = {2, 3}, negative[1] = {-1};
  smelt_value *tensor, *texts, *sequence, *map, *item;
  size_t length;
  CHECK(smelt_tensor_create(SMELT_INT32, 2, dims, &tensor) == SMELT_OK);
  CHECK(smelt_value_kind(tensor) == SMELT_TENSOR && smelt_value_type(tensor) == SMELT_INT32);
  CHECK(smelt_value_rank(tensor) == 2 && smelt_value_dims(tensor)[1] == 3 && smelt_value_elements(tensor) == 6);
  CHECK(smelt_value_bytes(tensor) == 24 && ((int32_t*)smelt_value_data(tensor))[5] == 0);
  CHECK(smelt_tensor_create(SMELT_STRING, 1, dims, &texts) == SMELT_OK);
  CHECK(smelt_value_set_string(texts, 1, "two", 3) == SMELT_OK);
  CHECK(strcmp(smelt_value_string(texts, 1, &length), "two") == 0 && length == 3);
  CHECK(smelt_value_string(texts, 2, NULL) == NULL && smelt_value_string(tensor, 0, NULL) == NULL);
  CHECK(smelt_value_set_string(texts, 2, "x", 1) == SMELT_INVALID_INPUT);
  const smelt_value* items[2];
  items[0] = tensor;
  items[1] = texts;
  CHECK(smelt_sequence_create(items, 2, &sequence) == SMELT_OK && smelt_value_item_count(sequence) == 2);
  CHECK(smelt_value_item(sequence, 1, &item) == SMELT_OK && smelt_value_type(item) == SMELT_STRING);
  smelt_value_free(item);
  CHECK(smelt_value_item(sequence, 2, &item) == SMELT_INVALID_INPUT && item == NULL);
  CHECK(smelt_map_create(texts, sequence, &map) == SMELT_OK && smelt_value_kind(map) == SMELT_MAP);
  smelt_value_free(map);
  smelt_value_free(sequence);
  smelt_value_free(texts);
  smelt_value_free(tensor);
  CHECK(smelt_tensor_create(SMELT_INT32, 17, dims, &tensor) == SMELT_INVALID_INPUT);
  CHECK(smelt_tensor_create(SMELT_INT32, 1, negative, &tensor) != SMELT_OK && tensor == NULL);
  CHECK(smelt_tensor_create((smelt_type)99, 2, dims, &tensor) == SMELT_INVALID_INPUT);
  CHECK(smelt_tensor_view(SMELT_FLOAT32, 2, dims, pixels, 20, &tensor) == SMELT_INVALID_INPUT);
  CHECK(smelt_tensor_view(SMELT_STRING, 2, dims, pixels, 24, &tensor) == SMELT_INVALID_INPUT);
}

static void count_lines(void* context, smelt_log_level level, const char* message) {
  (void)level;
  if (message[0]) ++*(int*)context;
}

static void describe(const smelt_model* model) {
  smelt_port port = SMELT_PORT_INIT;
  size_t index;
  CHECK(strcmp(smelt_model_format(model), "onnx") == 0);
  CHECK(smelt_model_method_count(model) >= 1 && smelt_model_method(model, 99) == NULL);
  CHECK(smelt_model_metadata_count(model) >= 2 && smelt_model_metadata_key(model, 0) != NULL);
  CHECK(smelt_model_metadata_value(model, 999) == NULL && smelt_model_label(model, 0) == NULL);
  CHECK(smelt_model_warning_count(model) == 0 && smelt_model_warning(model, 0) == NULL);
  CHECK(smelt_model_producer(model) != NULL);
  CHECK(smelt_model_input_count(model, NULL) == 1 && smelt_model_output_count(model, "") == 1);
  CHECK(smelt_model_input_count(model, "other") == 0);
  CHECK(smelt_model_input(model, NULL, 0, &port) == SMELT_OK && strcmp(port.name, "image") == 0);
  CHECK(port.kind == SMELT_TENSOR && port.type == SMELT_FLOAT32 && port.rank == 4 && port.dims[3] == 8);
  CHECK(port.scale == 0 && !port.optional && port.size == sizeof port);
  CHECK(smelt_model_output(model, NULL, 0, &port) == SMELT_OK && strcmp(port.name, "scores") == 0);
  CHECK(smelt_model_output(model, NULL, 1, &port) == SMELT_INVALID_INPUT);
  CHECK(smelt_model_find_input(model, NULL, "image", &index) == SMELT_OK && index == 0);
  CHECK(smelt_model_find_output(model, NULL, "score", &index) == SMELT_INVALID_INPUT);
  CHECK(strstr(smelt_error_message(), "did you mean 'scores'"));
  /* A program of an older version, whose struct ends behind the name. */
  memset(&port, 0x55, sizeof port);
  port.size = offsetof(smelt_port, kind);
  CHECK(smelt_model_input(model, NULL, 0, &port) == SMELT_OK && port.type == (smelt_type)0x55555555);
  port.size = 0;
  CHECK(smelt_model_input(model, NULL, 0, &port) == SMELT_INVALID_INPUT);
}

typedef struct outcome {
  int calls;
  smelt_status status;
} outcome;

static void note(void* context, smelt_status status, smelt_value** outputs, size_t count) {
  outcome* o = context;
  ++o->calls;
  o->status = status;
  for (size_t i = 0; i < count; ++i) smelt_value_free(outputs[i]);
}

static void run(const char* file) {
  smelt_load_options load = SMELT_LOAD_OPTIONS_INIT;
  smelt_session_options options = SMELT_SESSION_OPTIONS_INIT;
  smelt_profile_entry entry = SMELT_PROFILE_ENTRY_INIT;
  smelt_model *model, *chosen;
  smelt_session* session;
  smelt_value *input, *output, *buffer;
  smelt_pool* pool;
  const smelt_value* inputs[1];
  const char* names[1];
  outcome async = {0, SMELT_INTERNAL};
  size_t count = 0;
  int lines = 0;
  load.log = options.log = count_lines;
  load.log_context = options.log_context = &lines;
  CHECK(smelt_model_load(file, &load, &model) == SMELT_OK && lines == 1);
  if (!model) return;
  describe(model);
  options.backend = "none";
  CHECK(smelt_session_create(model, &options, &session) == SMELT_INVALID_INPUT && session == NULL);
  options.backend = "cpu";
  options.isa = "none";
  CHECK(smelt_session_create(model, &options, &session) == SMELT_INVALID_INPUT && session == NULL);
  options.isa = "baseline";
  options.arithmetic = (smelt_arithmetic)2;
  CHECK(smelt_session_create(model, &options, &session) == SMELT_INVALID_INPUT && session == NULL);
  CHECK(strcmp(smelt_error_message(), "arithmetic is 2, 0 or 1 expected") == 0);
  options.arithmetic = SMELT_ARITHMETIC_LITERT_XNNPACK;
  options.deterministic = options.strict_types = 1;
  CHECK(smelt_session_create(model, &options, &session) == SMELT_OK);
  smelt_session_free(session);
  options.deterministic = 0;
  CHECK(smelt_pool_create(0, &pool) == SMELT_INVALID_INPUT);
  CHECK(smelt_pool_create(2, &pool) == SMELT_OK);
  options.pool = pool;
  options.profile = 1;
  CHECK(smelt_session_create(model, &options, &session) == SMELT_OK);
  smelt_pool_free(pool);
  CHECK(smelt_tensor_view(SMELT_FLOAT32, 4, kImage, pixels, sizeof pixels, &input) == SMELT_OK);
  inputs[0] = input;
  CHECK(smelt_session_run(session, inputs, 1, &output, 1) == SMELT_OK && lines >= 2);
  CHECK(smelt_value_elements(output) == 10 && smelt_value_type(output) == SMELT_FLOAT32);
  CHECK(smelt_session_run(session, inputs, 0, &buffer, 1) == SMELT_INVALID_INPUT && buffer == NULL);
  CHECK(smelt_session_run(session, inputs, 1, &buffer, 0) == SMELT_INVALID_INPUT);
  CHECK(smelt_tensor_create(SMELT_FLOAT32, 2, smelt_value_dims(output), &buffer) == SMELT_OK);
  CHECK(smelt_session_run_into(session, inputs, 1, &buffer, 1) == SMELT_OK);
  CHECK(memcmp(smelt_value_data(buffer), smelt_value_data(output), smelt_value_bytes(output)) == 0);
  CHECK(smelt_session_profile(session, &count) == SMELT_OK && count > 0);
  CHECK(smelt_session_profile_entry(session, 0, &entry) == SMELT_OK && entry.calls >= 2 && entry.kernel[0]);
  CHECK(smelt_session_profile_entry(session, count, &entry) == SMELT_INVALID_INPUT);
  smelt_session_reset_profile(session);
  CHECK(smelt_session_profile(session, &count) == SMELT_OK && count == 0);
  smelt_session_reset_state(session);
  smelt_session_cancel(session);
  CHECK(smelt_session_isa(session)[0] != 0);
  CHECK(smelt_session_run_async(session, inputs, 1, NULL, NULL) == SMELT_INVALID_INPUT);
  CHECK(smelt_session_run_async(session, inputs, 1, note, &async) == SMELT_OK);
  smelt_session_free(session); /* ends the run */
  CHECK(async.calls == 1 && (async.status == SMELT_OK || async.status == SMELT_CANCELLED));
  smelt_value_free(buffer);
  names[0] = "scores";
  CHECK(smelt_model_with_outputs(model, NULL, names, 1, &chosen) == SMELT_OK);
  CHECK(smelt_model_output_count(chosen, NULL) == 1);
  smelt_model_free(chosen);
  smelt_value_free(output);
  smelt_value_free(input);
  smelt_model_free(model);
}

static void custom(const char* library, const char* file) {
  smelt_load_options load = SMELT_LOAD_OPTIONS_INIT;
  const int64_t dims[2] = {2, 3};
  float x[6] = {-1, 0, 1, 2, 3, 100};
  smelt_model* model;
  smelt_session* session;
  smelt_value *input, *output;
  const smelt_value* inputs[1];
  CHECK(smelt_model_load(file, NULL, &model) == SMELT_UNSUPPORTED);
  load.operator_libraries = &library;
  load.operator_library_count = 1;
  CHECK(smelt_model_load(file, &load, &model) == SMELT_OK);
  if (!model) return;
  CHECK(smelt_session_create(model, NULL, &session) == SMELT_OK);
  CHECK(smelt_tensor_view(SMELT_FLOAT32, 2, dims, x, sizeof x, &input) == SMELT_OK);
  inputs[0] = input;
  CHECK(smelt_session_run(session, inputs, 1, &output, 1) == SMELT_OK);
  if (output) {
    const float* y = smelt_value_data(output);
    const float scale = y[2];
    CHECK(y[0] == -scale && y[3] == 2 * scale && y[5] < 100 * scale && isfinite(y[5]));
  }
  smelt_value_free(output);
  smelt_value_free(input);
  smelt_session_free(session);
  smelt_model_free(model);
}

int main(int argc, char** argv) {
  char file[4096];
  if (argc != 4) return 2;
  snprintf(file, sizeof file, "%s/digits.onnx", argv[1]);
  errors();
  values();
  run(file);
  custom(argv[2], argv[3]);
  printf(failures ? "%d checks failed\n" : "the C interface does what it says\n", failures);
  return failures != 0;
}
