#include "ops/signal/image_codecs.h"
#ifdef SMELT_IMAGE_JPEG2000
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/shared_library.h"
#endif

namespace smelt::image {
namespace {

constexpr uint8_t kCodestream[] = {0xff, 0x4f, 0xff, 0x51};
constexpr uint8_t kBoxes[] = {0, 0, 0, 12, 'j', 'P', ' ', ' ', 0x0d, 0x0a, 0x87, 0x0a};

bool is_jpeg2000(Bytes b) { return starts_with(b, kBoxes) || starts_with(b, kCodestream); }

#ifdef SMELT_IMAGE_JPEG2000

struct Library {
  SharedLibrary library{SMELT_IMAGE_JPEG2000};
#define SMELT_GET(name) decltype(&opj_##name) name = library.get<decltype(&opj_##name)>("opj_" #name)
  SMELT_GET(create_decompress);
  SMELT_GET(destroy_codec);
  SMELT_GET(set_default_decoder_parameters);
  SMELT_GET(setup_decoder);
  SMELT_GET(stream_create);
  SMELT_GET(stream_destroy);
  SMELT_GET(stream_set_read_function);
  SMELT_GET(stream_set_skip_function);
  SMELT_GET(stream_set_seek_function);
  SMELT_GET(stream_set_user_data);
  SMELT_GET(stream_set_user_data_length);
  SMELT_GET(read_header);
  SMELT_GET(decode);
  SMELT_GET(image_destroy);
#undef SMELT_GET
};
const Library& openjpeg() {
  static const Library library;
  return library;
}

/// A file in memory.
struct Memory {
  Bytes bytes;
  size_t at = 0;

  static OPJ_SIZE_T read(void* to, OPJ_SIZE_T count, void* data) {
    auto* const m = static_cast<Memory*>(data);
    const size_t n = std::min(static_cast<size_t>(count), m->bytes.size() - m->at);
    if (n == 0) return static_cast<OPJ_SIZE_T>(-1);
    std::memcpy(to, m->bytes.data() + m->at, n);
    m->at += n;
    return n;
  }
  static OPJ_OFF_T skip(OPJ_OFF_T count, void* data) {
    auto* const m = static_cast<Memory*>(data);
    if (count < 0 || static_cast<size_t>(count) > m->bytes.size() - m->at) return -1;
    m->at += static_cast<size_t>(count);
    return count;
  }
  static OPJ_BOOL seek(OPJ_OFF_T to, void* data) {
    auto* const m = static_cast<Memory*>(data);
    if (to < 0 || static_cast<size_t>(to) > m->bytes.size()) return OPJ_FALSE;
    m->at = static_cast<size_t>(to);
    return OPJ_TRUE;
  }
};

/// A file with its header read.
class File {
 public:
  explicit File(Bytes bytes) : memory_{bytes} {
    const Library& l = openjpeg();
    codec_ = l.create_decompress(starts_with(bytes, kBoxes) ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    stream_ = l.stream_create(OPJ_J2K_STREAM_CHUNK_SIZE, OPJ_TRUE);
    if (!codec_ || !stream_) return;
    l.stream_set_read_function(stream_, Memory::read);
    l.stream_set_skip_function(stream_, Memory::skip);
    l.stream_set_seek_function(stream_, Memory::seek);
    l.stream_set_user_data(stream_, &memory_, nullptr);
    l.stream_set_user_data_length(stream_, bytes.size());
    opj_dparameters_t parameters;
    l.set_default_decoder_parameters(&parameters);
    if (!l.setup_decoder(codec_, &parameters) || !l.read_header(stream_, codec_, &image_)) drop_image();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    drop_image();
    if (stream_) openjpeg().stream_destroy(stream_);
    if (codec_) openjpeg().destroy_codec(codec_);
  }
  const opj_image_t* image() const { return image_; }
  bool decode() { return openjpeg().decode(codec_, stream_, image_) != 0; }

 private:
  void drop_image() {
    if (image_) openjpeg().image_destroy(image_);
    image_ = nullptr;
  }

  Memory memory_;
  opj_codec_t* codec_ = nullptr;
  opj_stream_t* stream_ = nullptr;
  opj_image_t* image_ = nullptr;
};

/// The components as pixels: all of the image's size, 1 (gray) or 3 of them used, luma and chroma told by `space`.
Result<Size> check(const opj_image_t& image) {
  if (image.x1 <= image.x0 || image.y1 <= image.y0) return InvalidInput("a JPEG 2000 image without pixels");
  const Size size{image.x1 - image.x0, image.y1 - image.y0};
  if (image.numcomps < 1) return InvalidInput("a JPEG 2000 image without components");
  for (OPJ_UINT32 c = 0; c < (image.numcomps < 3 ? 1 : 3); ++c) {
    const opj_image_comp_t& comp = image.comps[c];
    if (comp.w != size.width || comp.h != size.height)
      return Unsupported("a JPEG 2000 image with components of other sizes");
    if (comp.prec < 1 || comp.prec > 16) return Unsupported("a JPEG 2000 image of ", comp.prec, " bits a component");
  }
  if (image.color_space == OPJ_CLRSPC_SYCC || image.color_space == OPJ_CLRSPC_EYCC ||
      image.color_space == OPJ_CLRSPC_CMYK)
    return Unsupported("a JPEG 2000 image that is neither gray nor RGB");
  return size;
}

uint8_t sample(const opj_image_comp_t& comp, size_t i) {
  const int64_t v = int64_t{comp.data[i]} + (comp.sgnd ? int64_t{1} << (comp.prec - 1) : 0);
  const int64_t eight = comp.prec > 8 ? v >> (comp.prec - 8) : v << (8 - comp.prec);
  return static_cast<uint8_t>(std::clamp<int64_t>(eight, 0, 255));
}

Result<Size> size_of(Bytes bytes) {
  if (!openjpeg().library.complete())
    return Unsupported("a JPEG 2000 image: ", SMELT_IMAGE_JPEG2000, " is not installed");
  const File file(bytes);
  if (!file.image()) return InvalidInput("not a valid JPEG 2000 image");
  return check(*file.image());
}

Status decode(Bytes bytes, Size size, uint8_t* rgb) {
  File file(bytes);
  if (!file.image() || !file.decode()) return InvalidInput("a JPEG 2000 image that cannot be decoded");
  const opj_image_t& image = *file.image();
  SMELT_ASSIGN(const Size again, check(image));
  if (again.width != size.width || again.height != size.height)
    return InvalidInput("a JPEG 2000 image that changes its size while it is read");
  const auto pixels = static_cast<size_t>(size.width * size.height);
  for (size_t c = 0; c < 3; ++c) {
    const opj_image_comp_t& comp = image.comps[image.numcomps < 3 ? 0 : c];
    if (!comp.data) return InvalidInput("a JPEG 2000 image that cannot be decoded");
    for (size_t i = 0; i < pixels; ++i) rgb[3 * i + c] = sample(comp, i);
  }
  return Ok();
}

#else

Result<Size> size_of(Bytes) { return Unsupported("JPEG 2000 images: built without OpenJPEG"); }
Status decode(Bytes bytes, Size, uint8_t*) { return size_of(bytes).error(); }

#endif

}  // namespace

const Codec kJpeg2000 = {"JPEG 2000", is_jpeg2000, size_of, decode};

}  // namespace smelt::image
