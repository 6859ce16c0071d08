// JPEG through libjpeg(-turbo), whose errors come by longjmp: no object with a destructor lives in a function that the
// jump may leave.
#include "ops/signal/image_codecs.h"
#ifdef SMELT_IMAGE_JPEG
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "base/shared_library.h"

extern "C" {
#include <jpeglib.h>
}
#else
#include "ops/signal/image_stb.h"
#endif

namespace smelt::image {
namespace {

bool is_jpeg(Bytes b) { return starts_with(b, Bytes{{0xff, 0xd8, 0xff}}); }

#ifdef SMELT_IMAGE_JPEG

/// More scans than this no encoder writes; each costs time in proportion to the image.
constexpr int kMaxScans = 200;

struct Library {
  SharedLibrary library{SMELT_IMAGE_JPEG};
#define SMELT_GET(name) decltype(&jpeg_##name) name = library.get<decltype(&jpeg_##name)>("jpeg_" #name)
  SMELT_GET(std_error);
  SMELT_GET(CreateDecompress);
  SMELT_GET(destroy_decompress);
  SMELT_GET(read_header);
  SMELT_GET(start_decompress);
  SMELT_GET(read_scanlines);
  SMELT_GET(resync_to_restart);
#undef SMELT_GET
};
const Library& jpeg() {
  static const Library library;
  return library;
}

struct Reader {
  jpeg_decompress_struct state;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void fail(j_common_ptr state) {
  auto* const reader = static_cast<Reader*>(state->client_data);
  (*state->err->format_message)(state, reader->message);
  std::longjmp(reader->escape, 1);
}
[[noreturn]] void fail_with(j_common_ptr state, const char* message) {
  auto* const reader = static_cast<Reader*>(state->client_data);
  std::snprintf(reader->message, sizeof reader->message, "%s", message);
  std::longjmp(reader->escape, 1);
}
boolean at_end(j_decompress_ptr state) { fail_with(reinterpret_cast<j_common_ptr>(state), "the data end too early"); }
void skip(j_decompress_ptr state, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > state->src->bytes_in_buffer) at_end(state);
  state->src->next_input_byte += count;
  state->src->bytes_in_buffer -= static_cast<size_t>(count);
}
void watch_scans(j_common_ptr state) {
  if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number > kMaxScans) fail_with(state, "too many scans");
}

/// Reads the header; with `rgb` the pixels too. False: reader.message says why.
bool read(Reader& reader, Bytes bytes, Size& size, uint8_t* rgb) {
  jpeg_decompress_struct& state = reader.state;
  state.err = jpeg().std_error(&reader.errors);
  reader.errors.error_exit = fail;
  reader.errors.emit_message = [](j_common_ptr, int) {};
  reader.errors.output_message = [](j_common_ptr) {};
  state.client_data = &reader;
  if (setjmp(reader.escape)) {
    jpeg().destroy_decompress(&state);
    return false;
  }
  jpeg().CreateDecompress(&state, JPEG_LIB_VERSION, sizeof state);
  reader.source = {
      bytes.data(),           bytes.size(), [](j_decompress_ptr) {}, at_end, skip, jpeg().resync_to_restart,
      [](j_decompress_ptr) {}};
  state.src = &reader.source;
  reader.progress.progress_monitor = watch_scans;
  state.progress = &reader.progress;
  jpeg().read_header(&state, TRUE);
  size = {state.image_width, state.image_height};
  if (rgb) {
    const bool inks = state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK;
    if (inks) fail_with(reinterpret_cast<j_common_ptr>(&state), "CMYK images are not supported");
    state.out_color_space = JCS_RGB;
    jpeg().start_decompress(&state);
    while (state.output_scanline < state.output_height) {
      JSAMPROW row = rgb + size_t{3} * state.output_width * state.output_scanline;
      jpeg().read_scanlines(&state, &row, 1);
    }
  }
  jpeg().destroy_decompress(&state);
  return true;
}

Result<Size> size_of(Bytes bytes) {
  if (!jpeg().library.complete()) return Unsupported("a JPEG image: ", SMELT_IMAGE_JPEG, " is not installed");
  Reader reader{};
  Size size;
  if (!read(reader, bytes, size, nullptr)) return InvalidInput("a JPEG image that cannot be decoded: ", reader.message);
  return size;
}

Status decode(Bytes bytes, Size, uint8_t* rgb) {
  Reader reader{};
  Size size;
  if (!read(reader, bytes, size, rgb)) return InvalidInput("a JPEG image that cannot be decoded: ", reader.message);
  return Ok();
}

#else

Result<Size> size_of(Bytes bytes) { return stb_size(bytes); }
Status decode(Bytes bytes, Size size, uint8_t* rgb) { return stb_decode(bytes, size, rgb); }

#endif

}  // namespace

const Codec kJpeg = {"JPEG", is_jpeg, size_of, decode};

}  // namespace smelt::image
