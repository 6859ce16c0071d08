// Runs a model on raw elements, with nothing but the library: the smallest program that does.
//     run MODEL INPUT... > OUTPUTS
// INPUT: a file with the elements of one input, in the model's order. The elements of all outputs go to standard
// output.
#include <smelt/model.h>

#include <cstdio>
#include <vector>

namespace {

int fail(const smelt::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

bool read(const char* path, smelt::Tensor& to) {
  std::FILE* file = std::fopen(path, "rb");
  if (!file) return false;
  const bool whole = std::fread(to.raw(), 1, to.bytes(), file) == to.bytes() && std::fgetc(file) == EOF;
  std::fclose(file);
  return whole;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: run MODEL INPUT... > OUTPUTS\n"), 2;
  const auto model = smelt::Model::load(argv[1]);
  if (!model.ok()) return fail(model.error());
  auto session = smelt::Session::create(*model);
  if (!session.ok()) return fail(session.error());
  std::vector<smelt::Datum> inputs;
  for (const smelt::Port& port : model->inputs()) {
    auto tensor = smelt::Tensor::allocate(port.dtype, port.shape);
    if (!tensor.ok()) return fail(tensor.error());
    const auto i = static_cast<int>(inputs.size()) + 2;
    if (i >= argc || !read(argv[i], *tensor))
      return std::fprintf(stderr, "input '%s' needs a file of %zu bytes\n", port.name.c_str(), tensor->bytes()), 1;
    inputs.emplace_back(*tensor);
  }
  const auto outputs = session->run(inputs);
  if (!outputs.ok()) return fail(outputs.error());
  for (const smelt::Datum& output : *outputs) std::fwrite(output.tensor.raw(), 1, output.tensor.bytes(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}
