#include "formats/executorch/file.h"

#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/little_endian.h"
#include "base/mapped_file.h"
#include "executorch_ptd_generated.h"
#include "formats/executorch/aten/aten.h"
#include "formats/executorch/values.h"
#include "formats/rules.h"

namespace smelt::executorch {
namespace {

bool digit(std::byte b) { return b >= std::byte{'0'} && b <= std::byte{'9'}; }

flatbuffers::Verifier verifier_of(Bytes bytes) {
  return flatbuffers::Verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 64,
                               static_cast<flatbuffers::uoffset_t>(1'000'000 + bytes.size() / 8));
}

/// What keeps everything that views bytes of several files.
struct Owners {
  std::vector<std::shared_ptr<const void>> all;
};

/// A described tensor fits into the `size` bytes of its segment.
Status check_layout(const fb::ptd::TensorLayout* layout, uint64_t size) {
  if (!layout) return Ok();
  const DType dtype = aten::scalar_type(static_cast<int64_t>(layout->scalar_type()));
  if (dtype == DType::kInvalid) return InvalidModel("unknown scalar type ", static_cast<int>(layout->scalar_type()));
  SMELT_ASSIGN(const Shape shape, read_shape(layout->sizes()));
  SMELT_TRY(read_dim_order(layout->dim_order(), shape.rank()));
  if (shape.elements() > static_cast<int64_t>(size) || Tensor::byte_size(dtype, shape.elements()) > size)
    return InvalidModel(to_string(dtype), shape.str(), " in ", size, " bytes");
  return Ok();
}

}  // namespace

Result<DataFile> DataFile::open(const std::string& path) {
  SMELT_ASSIGN(auto file, MappedFile::open(path));
  const Bytes bytes = file->bytes();
  const auto fail = [&](const auto&... text) { return InvalidModel(path, ": ", text...); };
  constexpr size_t kHeader = 40;
  if (bytes.size() < 8 + kHeader || std::memcmp(bytes.data() + 4, "FT01", 4) != 0 ||
      std::memcmp(bytes.data() + 8, "FH01", 4) != 0)
    return fail("not an external data file (FT01 with an FH01 header)");
  if (read_le<uint32_t>(bytes, 12) < kHeader)
    return fail("header of ", read_le<uint32_t>(bytes, 12), " bytes, 40 expected");
  const uint64_t offset = read_le<uint64_t>(bytes, 16), size = read_le<uint64_t>(bytes, 24);
  const uint64_t base = read_le<uint64_t>(bytes, 32), data_size = read_le<uint64_t>(bytes, 40);
  if (!in_range(offset, size, bytes.size()) || size < 8) return fail("the index lies outside the file");
  if (!in_range(base, data_size, bytes.size())) return fail("the segments lie outside the file");
  // Its offsets count from the file's first byte: the header stands behind the identifier.
  const Bytes index = bytes.first(offset + size);
  auto verifier = verifier_of(index);
  if (!verifier.VerifyBuffer<fb::ptd::FlatTensor>(nullptr)) return fail("the index is broken");
  const auto* root = flatbuffers::GetRoot<fb::ptd::FlatTensor>(index.data());
  DataFile out;
  out.owner_ = file;
  out.size_ = bytes.size();
  if (!root->named_data()) return out;
  for (const auto* entry : *root->named_data()) {
    if (!entry->key()) return fail("data without a name");
    const uint32_t at = entry->segment_index();
    if (!root->segments() || at >= root->segments()->size())
      return fail("'", entry->key()->str(), "' is in segment ", at, ", which does not exist");
    const auto* segment = root->segments()->Get(at);
    if (!in_range(segment->offset(), segment->size(), data_size)) return fail("segment ", at, " lies outside the file");
    if (auto s = check_layout(entry->tensor_layout(), segment->size()); !s.ok())
      return s.error().within(Cat(path, ": '", entry->key()->str(), "'"));
    if (!out.entries_.emplace(entry->key()->str(), bytes.subspan(base + segment->offset(), segment->size())).second)
      return fail("'", entry->key()->str(), "' is listed twice");
  }
  return out;
}

bool ProgramFile::recognise(Bytes b) {
  return b.size() >= 8 && b[4] == std::byte{'E'} && b[5] == std::byte{'T'} && digit(b[6]) && digit(b[7]);
}

/// The extended header, when there is one: 'eh00', length, program size, segment base, segment data size.
Status ProgramFile::read_header(Bytes bytes) {
  bytes_ = bytes;
  flatbuffer_ = bytes;
  constexpr size_t kAt = 8;
  if (bytes.size() < kAt + 24 || std::memcmp(bytes.data() + kAt, "eh00", 4) != 0) return Ok();
  const uint32_t length = read_le<uint32_t>(bytes, kAt + 4);
  if (length < 24 || kAt + length > bytes.size())
    return InvalidModel("extended header of ", length, " bytes, 24 or 32 expected");
  const uint64_t program = read_le<uint64_t>(bytes, kAt + 8);
  segment_base_ = read_le<uint64_t>(bytes, kAt + 16);
  if (program < 8 || program > bytes.size())
    return InvalidModel("the header gives the program ", program, " bytes, the file has ", bytes.size());
  flatbuffer_ = bytes.first(program);
  if (segment_base_ != 0 && (segment_base_ < program || segment_base_ > bytes.size()))
    return InvalidModel("segments at ", segment_base_, " lie outside the file of ", bytes.size(), " bytes");
  segment_size_ = segment_base_ == 0 ? 0 : bytes.size() - segment_base_;
  if (length >= 32) {
    const uint64_t size = read_le<uint64_t>(bytes, kAt + 24);
    if (size > segment_size_)
      return InvalidModel("segments of ", size, " bytes end past the file of ", bytes.size(), " bytes");
    if (size != 0) segment_size_ = size;
  }
  return Ok();
}

Result<std::shared_ptr<const ProgramFile>> ProgramFile::parse(const Source& given) {
  const Source source = aligned(given);
  auto file = std::make_shared<ProgramFile>();
  file->owner_ = source.owner;
  if (!recognise(source.bytes)) return InvalidModel("not a program (identifier ET12)");
  if (const std::string_view id(reinterpret_cast<const char*>(source.bytes.data()) + 4, 4); id != "ET12")
    SMELT_TRY(breach(source, Rule::kProgramIdentifier, InvalidModel("identifier ", id, ", ET12 expected")));
  SMELT_TRY(file->read_header(source.bytes));
  auto verifier = verifier_of(file->flatbuffer_);
  if (!verifier.VerifyBuffer<fb::et::Program>(nullptr)) return InvalidModel("the program's flatbuffer is broken");
  file->program_ = flatbuffers::GetRoot<fb::et::Program>(file->flatbuffer_.data());
  const uint32_t segments = file->program_->segments() ? file->program_->segments()->size() : 0;
  for (uint32_t i = 0; i < segments; ++i) SMELT_TRY(file->segment(i));
  SMELT_TRY(file->check_subsegments(file->program_->constant_segment()));
  if (const auto* groups = file->program_->mutable_data_segments())
    for (const auto* table : *groups) SMELT_TRY(file->check_subsegments(table));
  SMELT_TRY(file->read_named(source));
  return std::shared_ptr<const ProgramFile>(std::move(file));
}

Status ProgramFile::read_named(const Source& source) {
  if (const auto* list = program_->named_data())
    for (const auto* entry : *list) {
      if (!entry->key()) return InvalidModel("named data without a name");
      auto bytes = segment(entry->segment_index());
      if (!bytes.ok()) return bytes.error().within(Cat("named data '", entry->key()->str(), "'"));
      if (!named_.emplace(entry->key()->str(), *bytes).second)
        return InvalidModel("named data '", entry->key()->str(), "' are listed twice");
    }
  if (!source.options || source.options->data_files.empty()) return Ok();
  auto owners = std::make_shared<Owners>();
  owners->all.push_back(owner_);
  for (const std::string& path : source.options->data_files) {
    SMELT_ASSIGN(auto data, DataFile::open(path));
    data.for_each([&](const std::string& key, Bytes bytes) { named_.emplace(key, bytes); });
    owners->all.push_back(data.owner());
    data_files_.emplace_back(path, data.size());
  }
  owner_ = owners;
  return Ok();
}

Result<Bytes> ProgramFile::segment(uint64_t index) const {
  const auto* list = program_->segments();
  if (!list || index >= list->size())
    return InvalidModel("segment ", index, " does not exist, the program has ", list ? list->size() : 0);
  const auto* s = list->Get(static_cast<flatbuffers::uoffset_t>(index));
  if (!in_range(s->offset(), s->size(), segment_size_))
    return InvalidModel("segment ", index, " at ", s->offset(), " of ", s->size(), " bytes lies outside the ",
                        segment_size_, " bytes of segments");
  return bytes_.subspan(segment_base_ + s->offset(), s->size());
}

Status ProgramFile::check_subsegments(const fb::et::SubsegmentOffsets* table) const {
  const auto* offsets = table ? table->offsets() : nullptr;
  for (uint32_t i = 1; offsets && i < offsets->size(); ++i) SMELT_TRY(subsegment(table, i, 0));
  return Ok();
}

Result<Bytes> ProgramFile::subsegment(const fb::et::SubsegmentOffsets* table, uint32_t index, uint64_t size) const {
  const auto* offsets = table->offsets();
  if (!offsets || index >= offsets->size())
    return InvalidModel("data ", index, " does not exist, the table has ", offsets ? offsets->size() : 0);
  SMELT_ASSIGN(const Bytes all, segment(table->segment_index()));
  const uint64_t offset = offsets->Get(index);
  if (!in_range(offset, size, all.size()))
    return InvalidModel("data ", index, " at ", offset, " of ", size, " bytes lies outside its segment of ", all.size(),
                        " bytes");
  return all.subspan(offset, size);
}

Result<Bytes> ProgramFile::constant(uint32_t index, uint64_t size) const {
  const auto* table = program_->constant_segment();
  if (table && table->offsets() && table->offsets()->size() > 0) return subsegment(table, index, size);
  const auto* buffers = program_->constant_buffer();
  if (!buffers || index >= buffers->size())
    return InvalidModel("constant ", index, " does not exist, the program has ", buffers ? buffers->size() : 0);
  const auto* storage = buffers->Get(index)->storage();
  const uint64_t held = storage ? storage->size() : 0;
  if (held < size) return InvalidModel("constant ", index, " has ", held, " bytes, ", size, " expected");
  return Bytes(reinterpret_cast<const std::byte*>(storage ? storage->data() : nullptr), size);
}

Result<Bytes> ProgramFile::mutable_data(uint64_t group, uint32_t index, uint64_t size) const {
  const auto* groups = program_->mutable_data_segments();
  if (!groups || group >= groups->size())
    return InvalidModel("mutable data ", group, " do not exist, the program has ", groups ? groups->size() : 0);
  return subsegment(groups->Get(static_cast<flatbuffers::uoffset_t>(group)), index, size);
}

Result<Bytes> ProgramFile::delegate_data(const fb::et::BackendDelegateDataReference* where) const {
  if (!where) return InvalidModel("no processed data");
  if (where->location() == fb::et::DataLocation::SEGMENT) return segment(where->index());
  if (where->location() != fb::et::DataLocation::INLINE)
    return InvalidModel("processed data in an unknown place ", static_cast<int>(where->location()));
  const auto* list = program_->backend_delegate_data();
  if (!list || where->index() >= list->size())
    return InvalidModel("processed data ", where->index(), " do not exist, the program has ", list ? list->size() : 0);
  const auto* data = list->Get(where->index())->data();
  if (!data) return Bytes();
  return Bytes(reinterpret_cast<const std::byte*>(data->data()), data->size());
}

const Bytes* ProgramFile::named(std::string_view key) const {
  const auto at = named_.find(key);
  return at == named_.end() ? nullptr : &at->second;
}

}  // namespace smelt::executorch
