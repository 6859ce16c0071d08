#pragma once

/// Marks what libsmelt.so exports; everything else is hidden.
#if defined(__GNUC__)
#define SMELT_API __attribute__((visibility("default")))
#else
#define SMELT_API
#endif
