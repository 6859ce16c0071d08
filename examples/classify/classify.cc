// Names what a picture shows: an 8-bit PGM file (P5) of the size that the model takes.
//     classify MODEL LABELS PICTURE.pgm
#include <smelt/model.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

std::vector<float> read_pgm(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  int width = 0, height = 0, most = 0;
  file >> magic >> width >> height >> most;
  if (magic != "P5" || width < 1 || height < 1 || width > 4096 || height > 4096 || most != 255)
    throw std::runtime_error(std::string(path) + ": not an 8-bit PGM file");
  file.get();
  std::vector<float> pixels;
  for (int i = 0; i < width * height; ++i) pixels.push_back(static_cast<float>(file.get()) / 255);
  if (!file) throw std::runtime_error(std::string(path) + ": the pixels are cut off");
  return pixels;
}

int main(int argc, char** argv) try {
  if (argc != 4) return std::cerr << "usage: classify MODEL LABELS PICTURE.pgm\n", 2;
  const auto model = smelt::Model::load(argv[1]).value();  // value() throws what went wrong
  auto session = smelt::Session::create(model, {.threads = 2}).value();

  const smelt::Port input = model.inputs().at(0);
  const auto pixels = read_pgm(argv[3]);
  const auto image = smelt::Tensor::from<float>(input.dtype, input.shape, pixels);  // throws where the sizes differ
  const auto outputs = session.run_named({{input.name, image}}).value();

  const smelt::Tensor& scores = outputs.begin()->second.tensor;
  const float* s = scores.data<float>();
  const auto best = std::max_element(s, s + scores.elements()) - s;
  std::ifstream labels(argv[2]);
  std::string label;
  for (int64_t i = 0; i <= best; ++i) std::getline(labels, label);
  std::cout << label << " " << s[best] << "\n";
} catch (const std::exception& e) {
  std::cerr << "classify: " << e.what() << "\n";
  return 1;
}
