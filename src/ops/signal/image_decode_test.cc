#include <string>

#include "ops/signal/signal.h"
#include "tests/support/op_runner.h"

namespace smelt {
namespace {

Result<std::vector<Datum>> decode(const std::string& bytes, const char* format = "RGB") {
  ImageDecodeAttrs a;
  a.pixel_format = format;
  const std::vector<uint8_t> data(bytes.begin(), bytes.end());
  return test::OpRunner(Op::kImageDecode, make_attrs<ImageDecodeAttrs>(a))
      .input(Tensor::from<uint8_t>(DType::kU8, Shape{static_cast<int64_t>(data.size())}, data))
      .run_all();
}

TEST(ImageDecode, PortableMaps) {
  struct Row {
    std::string file;
    Shape shape;
    std::vector<int> rgb;
  };
  using namespace std::string_literals;
  const Row rows[] = {
      {"P1\n2 1\n1 0", {1, 2, 3}, {0, 0, 0, 255, 255, 255}},
      {"P2 # gray\n2 1 255\n1 200", {1, 2, 3}, {1, 1, 1, 200, 200, 200}},
      {"P3\n1 2\n15\n0 15 3 1 2 4", {2, 1, 3}, {0, 255, 51, 17, 34, 68}},
      {"P4 9 1\n\x80\x00"s, {1, 9, 3}, {0,   0,   0,   255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
      {"P5 1 1 65535\n\xff\xff"s, {1, 1, 3}, {255, 255, 255}},
      {"P6 1 1 255\n\x01\x02\x03"s, {1, 1, 3}, {1, 2, 3}},
  };
  for (const Row& r : rows) {
    const auto out = decode(r.file);
    ASSERT_TRUE(out.ok()) << r.file << ": " << out.error().message();
    const Tensor& t = (*out)[0].tensor;
    EXPECT_EQ(t.shape(), r.shape) << r.file;
    const std::vector<int> got(t.data<uint8_t>(), t.data<uint8_t>() + t.elements());
    EXPECT_EQ(got, r.rgb) << r.file;
  }
  const auto bgr = decode("P3 1 1 255 1 2 3", "BGR");
  ASSERT_TRUE(bgr.ok());
  EXPECT_EQ((*bgr)[0].tensor.data<uint8_t>()[0], 3);
  const auto gray = decode("P3 1 1 255 10 20 30", "Grayscale");
  ASSERT_TRUE(gray.ok());
  EXPECT_EQ((*gray)[0].tensor.data<uint8_t>()[0], 18);
}

TEST(ImageDecode, RefusesWhatIsNoImage) {
  using namespace std::string_literals;
  const std::string files[] = {
      "",
      "P6",
      "P6 70000 70000 255\n",
      "P6 2 2 255\n1",
      "P5 1 1 0\n1",
      "nothing",
      "BM",
      "\x89PNG\r\n\x1a\n"s,
      "\xff\xd8\xff\xe0"s,
      "\xff\xd8\xff\xc0\x00\x0b\x08\xff\xff\xff\xff\x01\x01\x11\x00"s,  // a header of 65535 x 65535 and no data
      "RIFF\x10\x00\x00\x00WEBPVP8L"s,
      "II*\x00\x08\x00\x00\x00\xff\xff"s,
      "MM\x00*\xff\xff\xff\xff"s,
      "\xff\x4f\xff\x51\x00\x29"s,
      "\x00\x00\x00\x0cjP  \r\n\x87\n"s,
  };
  for (const std::string& f : files) EXPECT_FALSE(decode(f).ok()) << f;
}

}  // namespace
}  // namespace smelt
