// Look-ups, scattering, sorting, selection of boxes, random numbers, spectra.
#include "formats/tflite/lowering.h"
#include "ops/detection/detection.h"
#include "ops/gather/gather.h"
#include "ops/random/random.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/signal/signal.h"
#include "ops/sort/sort.h"
#include "ops/strings/strings.h"

namespace smelt::tflite {
namespace {
using Code = tfl::BuiltinOperator;
}

Status lower_gather(OperatorContext& c) {
  GatherAttrs a;
  a.negative = false;
  if (const auto* o = c.options<tfl::GatherOptions>()) {
    a.axis = o->axis();
    a.batch_dims = o->batch_dims();
  }
  return c.emit(Op::kGather, a, c.ins());
}

Status lower_gather_nd(OperatorContext& c) {
  GatherAttrs a;
  a.negative = false;
  return c.emit(Op::kGatherND, a, c.ins());
}

Status lower_scatter_nd(OperatorContext& c) { return c.emit(Op::kScatterNew, c.ins()); }
Status lower_sparse_to_dense(OperatorContext& c) { return c.emit(Op::kSparseToDense, c.ins()); }

Status lower_one_hot(OperatorContext& c) {
  OneHotAttrs a;
  a.wrap_negative = false;
  if (const auto* o = c.options<tfl::OneHotOptions>()) a.axis = o->axis();
  return c.emit(Op::kOneHot, a, c.ins());
}

Status lower_embedding_lookup(OperatorContext& c) { return c.emit(Op::kEmbeddingLookup, c.ins()); }

Status lower_embedding_lookup_sparse(OperatorContext& c) {
  EmbeddingSparseAttrs a;
  if (const auto* o = c.options<tfl::EmbeddingLookupSparseOptions>()) {
    SMELT_TRY(check_enumerator(o->combiner(), "combiner"));
    if (o->combiner() == tfl::CombinerType::MEAN) a.combiner = EmbeddingSparseAttrs::Combiner::kMean;
    if (o->combiner() == tfl::CombinerType::SQRTN) a.combiner = EmbeddingSparseAttrs::Combiner::kSqrtN;
  }
  return c.emit(Op::kEmbeddingLookupSparse, a, c.ins());
}

Status lower_hashtable_lookup(OperatorContext& c) { return c.emit_all(Op::kHashtableLookup, c.ins()); }

Status lower_lsh_projection(OperatorContext& c) {
  const auto* o = c.options<tfl::LSHProjectionOptions>();
  HashAttrs a;
  if (o && o->type() == tfl::LSHProjectionType::SPARSE)
    a.kind = HashAttrs::Kind::kLshSparse;
  else if (o && o->type() == tfl::LSHProjectionType::DENSE)
    a.kind = HashAttrs::Kind::kLshDense;
  else
    return InvalidModel("no projection type");
  return c.emit(Op::kHash, a, c.ins());
}

Status lower_skip_gram(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::SkipGramOptions>());
  SkipGramAttrs a;
  a.ngram = o->ngram_size();
  a.max_skip = o->max_skip_size();
  a.all_ngrams = o->include_all_ngrams();
  if (a.ngram < 1 || a.max_skip < 0) return InvalidModel("n-grams of ", a.ngram, " words, skipping ", a.max_skip);
  return c.emit(Op::kSkipGram, a, {c.in(0)});
}

Status lower_topk(OperatorContext& c) {
  TopKAttrs a;
  a.index_dtype = c.out_type(1).dtype;
  return c.emit_all(Op::kTopK, a, c.ins());
}

Status lower_unique(OperatorContext& c) {
  UniqueAttrs a;
  a.sorted = false;
  a.index_dtype = c.outputs() > 1 ? c.out_type(1).dtype : DType::kI32;
  return c.emit_to(Op::kUnique, a, {c.in(0)}, {c.out(0), kNoValue, c.outputs() > 1 ? c.out(1) : kNoValue});
}

Status lower_where(OperatorContext& c) {
  NonZeroAttrs a;
  a.rows = true;
  return c.emit_unquantized(Op::kNonZero, a, {c.in(0)});
}

Status lower_bucketize(OperatorContext& c) {
  const auto* o = c.options<tfl::BucketizeOptions>();
  std::vector<float> edges;
  if (o && o->boundaries()) edges.assign(o->boundaries()->begin(), o->boundaries()->end());
  for (size_t i = 1; i < edges.size(); ++i)
    if (!(edges[i - 1] <= edges[i])) return InvalidModel("the boundaries do not ascend");
  const ValueId boundaries = c.constant(
      Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(edges.size())}, std::span<const float>(edges)));
  return c.emit(Op::kBucketize, SortAttrs(), {c.in(0), boundaries});
}

Status lower_nms(OperatorContext& c) {
  NmsAttrs a;
  a.form = c.code() == Code::NON_MAX_SUPPRESSION_V4 ? NmsAttrs::Form::kTflite4 : NmsAttrs::Form::kTflite5;
  return c.emit_all(Op::kNonMaxSuppression, a, c.ins());
}

Status lower_rfft2d(OperatorContext& c) {
  DftAttrs a;
  a.onesided = true;
  a.complex_dtype = true;
  a.dims = 2;
  return c.emit(Op::kDft, a, {c.in(0), c.in(1)});
}

Status lower_random(OperatorContext& c) {
  RandomAttrs a;
  a.kind = c.code() == Code::RANDOM_UNIFORM ? RandomAttrs::Kind::kUniform : RandomAttrs::Kind::kNormal;
  a.to = c.out_type(0).dtype;
  if (const auto* o = c.options<tfl::RandomOptions>()) {
    a.seeded = o->seed() != 0 || o->seed2() != 0;
    a.seed = static_cast<double>(o->seed() ^ (o->seed2() << 16));
  }
  return c.emit(Op::kRandom, a, {c.in(0)});
}

Status lower_multinomial(OperatorContext& c) {
  SMELT_ASSIGN(const auto samples, c.const_ints(1, "the number of samples"));
  if (samples.size() != 1 || samples[0] < 0) return InvalidModel("the number of samples is not one positive number");
  RandomAttrs a;
  a.kind = RandomAttrs::Kind::kMultinomial;
  a.to = c.out_type(0).dtype;
  a.samples = samples[0];
  if (const auto* o = c.options<tfl::RandomOptions>()) {
    a.seeded = o->seed() != 0 || o->seed2() != 0;
    a.seed = static_cast<double>(o->seed() ^ (o->seed2() << 16));
  }
  return c.emit(Op::kRandom, a, {c.in(0)});
}

}  // namespace smelt::tflite
