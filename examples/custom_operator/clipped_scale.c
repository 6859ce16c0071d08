/* The operator of main.cc as a library for any program that runs models:
 *     cc -shared -fPIC -I/where/smelt/is/installed/include clipped_scale.c -o clipped_scale.so
 *     smelt run clipped_scale.tflite --custom-ops clipped_scale.so */
#include <smelt/operators.h>
#include <stdlib.h>
#include <string.h>

enum { kFloat32 = 1 };

typedef struct parameters {
  float scale, limit;
} parameters;

static int prepare(const void* options, size_t bytes, const smelt_array* inputs, size_t input_count,
                   size_t output_count, void** state, char* message) {
  if (bytes != sizeof(parameters) || input_count != 1 || inputs[0].type != kFloat32 || output_count != 1) {
    strcpy(message, "8 bytes of options and one float32 input expected");
    return 1;
  }
  *state = malloc(bytes);
  if (!*state) return 2;
  memcpy(*state, options, bytes);
  return 0;
}

static int infer(void* state, const smelt_array* inputs, size_t input_count, smelt_array* outputs, size_t output_count,
                 char* message) {
  (void)state, (void)input_count, (void)output_count, (void)message;
  outputs[0] = inputs[0];
  return 0;
}

static int run(void* state, const smelt_array* inputs, size_t input_count, smelt_array* outputs, size_t output_count,
               char* message) {
  const parameters* p = state;
  const float* x = inputs[0].data;
  float* y = outputs[0].data;
  int64_t n = 1;
  (void)input_count, (void)output_count, (void)message;
  for (int i = 0; i < inputs[0].rank; ++i) n *= inputs[0].dims[i];
  for (int64_t i = 0; i < n; ++i) y[i] = p->scale * x[i] < p->limit ? p->scale * x[i] : p->limit;
  return 0;
}

static const smelt_custom_operator kOperators[] = {
    {sizeof(smelt_custom_operator), "ClippedScale", prepare, free, infer, run}};

const smelt_custom_operator* smelt_custom_operators(size_t* count) {
  *count = sizeof kOperators / sizeof kOperators[0];
  return kOperators;
}
