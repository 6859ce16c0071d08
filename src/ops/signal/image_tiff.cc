#include "ops/signal/image_codecs.h"
#ifdef SMELT_IMAGE_TIFF
#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/shared_library.h"
#endif

namespace smelt::image {
namespace {

bool is_tiff(Bytes b) {
  return starts_with(b, Bytes{{'I', 'I', 42, 0}}) || starts_with(b, Bytes{{'M', 'M', 0, 42}}) ||
         starts_with(b, Bytes{{'I', 'I', 43, 0}}) || starts_with(b, Bytes{{'M', 'M', 0, 43}});
}

// The functions that keep messages and allocations of one file to itself came with 4.5.
#if defined(SMELT_IMAGE_TIFF) && TIFFLIB_VERSION >= 20221213

struct Library {
  SharedLibrary library{SMELT_IMAGE_TIFF};
#define SMELT_GET(name) decltype(&TIFF##name) name = library.get<decltype(&TIFF##name)>("TIFF" #name)
  SMELT_GET(OpenOptionsAlloc);
  SMELT_GET(OpenOptionsFree);
  SMELT_GET(OpenOptionsSetErrorHandlerExtR);
  SMELT_GET(OpenOptionsSetWarningHandlerExtR);
  SMELT_GET(OpenOptionsSetMaxSingleMemAlloc);
  SMELT_GET(ClientOpenExt);
  SMELT_GET(Close);
  SMELT_GET(GetField);
  SMELT_GET(ReadRGBAImageOriented);
#undef SMELT_GET
};
const Library& tiff() {
  static const Library library;
  return library;
}

/// A file in memory.
struct Memory {
  Bytes bytes;
  uint64_t at = 0;

  static tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
    auto* const m = static_cast<Memory*>(handle);
    if (count <= 0 || m->at >= m->bytes.size()) return 0;
    const size_t n = std::min(static_cast<size_t>(count), m->bytes.size() - static_cast<size_t>(m->at));
    std::memcpy(to, m->bytes.data() + m->at, n);
    m->at += n;
    return static_cast<tmsize_t>(n);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    auto* const m = static_cast<Memory*>(handle);
    m->at = offset + (whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->bytes.size() : 0);
    return m->at;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return static_cast<Memory*>(handle)->bytes.size(); }
  static int map(thandle_t, void**, toff_t*) { return 0; }
  static void unmap(thandle_t, void*, toff_t) {}
};

using File = std::unique_ptr<TIFF, void (*)(TIFF*)>;

File open(Memory& memory) {
  TIFFOpenOptions* const options = tiff().OpenOptionsAlloc();
  const auto silent = [](TIFF*, void*, const char*, const char*, va_list) { return 1; };
  tiff().OpenOptionsSetErrorHandlerExtR(options, silent, nullptr);
  tiff().OpenOptionsSetWarningHandlerExtR(options, silent, nullptr);
  tiff().OpenOptionsSetMaxSingleMemAlloc(options, tmsize_t{4} * kMaxPixels);
  TIFF* const file = tiff().ClientOpenExt("image", "rm", &memory, Memory::read, Memory::write, Memory::seek,
                                          Memory::close, Memory::size, Memory::map, Memory::unmap, options);
  tiff().OpenOptionsFree(options);
  return {file, [](TIFF* f) {
            if (f) tiff().Close(f);
          }};
}

Result<Size> size_of(Bytes bytes) {
  if (!tiff().library.complete()) return Unsupported("a TIFF image: ", SMELT_IMAGE_TIFF, " is not installed");
  Memory memory{bytes};
  const File file = open(memory);
  uint32_t width = 0, height = 0;
  if (!file || !tiff().GetField(file.get(), TIFFTAG_IMAGEWIDTH, &width) ||
      !tiff().GetField(file.get(), TIFFTAG_IMAGELENGTH, &height))
    return InvalidInput("not a valid TIFF image");
  return Size{width, height};
}

Status decode(Bytes bytes, Size size, uint8_t* rgb) {
  Memory memory{bytes};
  const File file = open(memory);
  const auto pixels = static_cast<size_t>(size.width * size.height);
  std::vector<uint32_t> raster(pixels);
  if (!file || !tiff().ReadRGBAImageOriented(file.get(), static_cast<uint32_t>(size.width),
                                             static_cast<uint32_t>(size.height), raster.data(), ORIENTATION_TOPLEFT, 1))
    return InvalidInput("a TIFF image that cannot be decoded");
  for (size_t i = 0; i < pixels; ++i) {
    rgb[3 * i] = static_cast<uint8_t>(TIFFGetR(raster[i]));
    rgb[3 * i + 1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
    rgb[3 * i + 2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
  }
  return Ok();
}

#else

Result<Size> size_of(Bytes) { return Unsupported("TIFF images: built without libtiff 4.5"); }
Status decode(Bytes bytes, Size, uint8_t*) { return size_of(bytes).error(); }

#endif

}  // namespace

const Codec kTiff = {"TIFF", is_tiff, size_of, decode};

}  // namespace smelt::image
