#ifndef SMELT_VERSION_H
#define SMELT_VERSION_H

/* The version that these headers belong to; smelt_version() and smelt::version() tell the library's. A tag vX.Y.Z must
 * bear the same numbers: cmake/version.cmake checks it. */
#define SMELT_VERSION_MAJOR 0
#define SMELT_VERSION_MINOR 1
#define SMELT_VERSION_PATCH 0

/* Versions in their order: 1.2.3 is 10203. */
#define SMELT_VERSION_NUMBER (SMELT_VERSION_MAJOR * 10000 + SMELT_VERSION_MINOR * 100 + SMELT_VERSION_PATCH)
/* "1.2.3" */
#define SMELT_VERSION_STRING               \
  SMELT_VERSION_TEXT_(SMELT_VERSION_MAJOR) \
  "." SMELT_VERSION_TEXT_(SMELT_VERSION_MINOR) "." SMELT_VERSION_TEXT_(SMELT_VERSION_PATCH)
#define SMELT_VERSION_TEXT_(number) SMELT_VERSION_WORD_(number)
#define SMELT_VERSION_WORD_(number) #number

#endif
