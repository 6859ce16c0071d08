#include "compare/recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace smelt {
namespace {

Error io_error(const char* what) { return Error(ErrorCode::kIo, Cat(what, ": ", std::strerror(errno))); }

Status write_all(int fd, const char* data, size_t size, uint64_t at) {
  while (size > 0) {
    const ssize_t n = pwrite(fd, data, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("the temporary file of intermediate values (folder: TMPDIR) cannot be written");
    data += n;
    size -= static_cast<size_t>(n);
    at += static_cast<uint64_t>(n);
  }
  return Ok();
}

Status read_all(int fd, char* data, size_t size, uint64_t at) {
  while (size > 0) {
    const ssize_t n = pread(fd, data, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("intermediate values cannot be read");
    if (n == 0) return Error(ErrorCode::kIo, "intermediate values end early");
    data += n;
    size -= static_cast<size_t>(n);
    at += static_cast<uint64_t>(n);
  }
  return Ok();
}

Tensor type_only(const Tensor& t) {
  Tensor out = Tensor::view(t.dtype(), t.shape(), nullptr, nullptr);
  out.set_quant(t.quant());
  return out;
}

}  // namespace

std::shared_ptr<const int> own_descriptor(int fd) {
  return {new int(fd), [](const int* p) {
            close(*p);
            delete p;
          }};
}

Result<Recording> Recording::create() {
  const char* folder = std::getenv("TMPDIR");
  std::string path = Cat(folder && *folder ? folder : "/tmp", "/smelt-values-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return io_error("no temporary file for intermediate values");
  unlink(path.c_str());
  Recording out;
  out.file_ = own_descriptor(fd);
  return out;
}

Status Recording::add(ValueId id, const Datum& value) {
  if (!value.is_tensor() || value.tensor.dtype() == DType::kString) return Ok();
  const Tensor& t = value.tensor;
  if (t.bytes() > 0) SMELT_TRY(write_all(*file_, t.data<char>(), t.bytes(), end_));
  refer(id, t, file_, end_);
  end_ += t.bytes();
  return Ok();
}

void Recording::refer(ValueId id, const Tensor& type, std::shared_ptr<const int> file, uint64_t offset) {
  if (entries_.count(id) == 0) order_.push_back(id);
  entries_[id] = {type_only(type), std::move(file), offset};
}

Result<Tensor> Recording::read(ValueId id) const {
  const Entry& e = entries_.at(id);
  SMELT_ASSIGN(Tensor t, Tensor::allocate(e.type.dtype(), e.type.shape(), false));
  if (t.bytes() > 0) SMELT_TRY(read_all(*e.file, t.data<char>(), t.bytes(), e.offset));
  t.set_quant(e.type.quant());
  return t;
}

Status Recording::read(ValueId id, int64_t at, int64_t count, void* to) const {
  const Entry& e = entries_.at(id);
  const size_t width = Tensor::byte_size(e.type.dtype(), 1);
  return read_all(*e.file, static_cast<char*>(to), static_cast<size_t>(count) * width,
                  e.offset + static_cast<uint64_t>(at) * width);
}

}  // namespace smelt
