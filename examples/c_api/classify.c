/* Names what a picture shows, from C99: an 8-bit PGM file (P5) of the size that the model takes.
 *     cc -std=c99 classify.c $(pkg-config --cflags --libs smelt) -o classify
 *     classify MODEL PICTURE.pgm */
#include <smelt/smelt.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void) {
  fprintf(stderr, "classify: %s\n", smelt_error_message());
  return 1;
}

/* Fills `pixels` with values in [0, 1]. */
static int read_pgm(const char* path, float* pixels, int64_t count) {
  int width = 0, height = 0;
  FILE* file = fopen(path, "rb");
  int good = file && fscanf(file, "P5 %d %d 255", &width, &height) == 2 && fgetc(file) != EOF;
  good = good && (int64_t)width * height == count;
  for (int64_t i = 0; good && i < count; ++i) {
    const int pixel = fgetc(file);
    good = pixel != EOF;
    pixels[i] = (float)pixel / 255;
  }
  if (file) fclose(file);
  return good;
}

int main(int argc, char** argv) {
  smelt_port port = SMELT_PORT_INIT;
  smelt_model* model;
  smelt_session* session;
  smelt_value *image, *scores;
  int64_t best = 0;
  if (argc != 3) return fprintf(stderr, "usage: classify MODEL PICTURE.pgm\n"), 2;
  if (smelt_model_load(argv[1], NULL, &model) != SMELT_OK) return fail();
  if (smelt_model_input(model, NULL, 0, &port) != SMELT_OK) return fail();
  if (smelt_session_create(model, NULL, &session) != SMELT_OK) return fail();
  if (smelt_tensor_create(port.type, port.rank, port.dims, &image) != SMELT_OK) return fail();
  if (port.type != SMELT_FLOAT32 || !read_pgm(argv[2], smelt_value_data(image), smelt_value_elements(image)))
    return fprintf(stderr, "classify: %s does not fit the model's input %s\n", argv[2], port.name), 1;
  const smelt_value* inputs[] = {image};
  if (smelt_session_run(session, inputs, 1, &scores, 1) != SMELT_OK) return fail();
  const float* s = smelt_value_data(scores);
  for (int64_t i = 1; i < smelt_value_elements(scores); ++i)
    if (s[i] > s[best]) best = i;
  printf("class %d, score %.4f\n", (int)best, s[best]);
  smelt_value_free(scores);
  smelt_value_free(image);
  smelt_session_free(session);
  smelt_model_free(model);
  return 0;
}
