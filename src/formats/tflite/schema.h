#pragma once

// The generated accessors of schemas/tflite.fbs, without the warnings of the generator's code.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
#include "tflite_generated.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
