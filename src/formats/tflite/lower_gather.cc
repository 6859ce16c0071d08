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

Status lower_gather(Lowering& l) {
  GatherAttrs a;
  a.negative = false;
  if (const auto* o = l.options<tfl::GatherOptions>()) {
    a.axis = o->axis();
    a.batch_dims = o->batch_dims();
  }
  return l.emit(Op::kGather, make_attrs<GatherAttrs>(a), l.ins());
}

Status lower_gather_nd(Lowering& l) {
  GatherAttrs a;
  a.negative = false;
  return l.emit(Op::kGatherND, make_attrs<GatherAttrs>(a), l.ins());
}

Status lower_scatter_nd(Lowering& l) { return l.emit(Op::kScatterNew, make_attrs<NoAttrs>(), l.ins()); }
Status lower_sparse_to_dense(Lowering& l) { return l.emit(Op::kSparseToDense, make_attrs<NoAttrs>(), l.ins()); }

Status lower_one_hot(Lowering& l) {
  OneHotAttrs a;
  a.wrap_negative = false;
  if (const auto* o = l.options<tfl::OneHotOptions>()) a.axis = o->axis();
  return l.emit(Op::kOneHot, make_attrs<OneHotAttrs>(a), l.ins());
}

Status lower_embedding_lookup(Lowering& l) { return l.emit(Op::kEmbeddingLookup, make_attrs<NoAttrs>(), l.ins()); }

Status lower_embedding_lookup_sparse(Lowering& l) {
  EmbeddingSparseAttrs a;
  if (const auto* o = l.options<tfl::EmbeddingLookupSparseOptions>()) {
    if (o->combiner() == tfl::CombinerType::MEAN) a.combiner = EmbeddingSparseAttrs::Combiner::kMean;
    if (o->combiner() == tfl::CombinerType::SQRTN) a.combiner = EmbeddingSparseAttrs::Combiner::kSqrtN;
  }
  return l.emit(Op::kEmbeddingLookupSparse, make_attrs<EmbeddingSparseAttrs>(a), l.ins());
}

Status lower_hashtable_lookup(Lowering& l) { return l.emit_all(Op::kHashtableLookup, make_attrs<NoAttrs>(), l.ins()); }

Status lower_lsh_projection(Lowering& l) {
  const auto* o = l.options<tfl::LSHProjectionOptions>();
  HashAttrs a;
  if (o && o->type() == tfl::LSHProjectionType::SPARSE)
    a.kind = HashAttrs::Kind::kLshSparse;
  else if (o && o->type() == tfl::LSHProjectionType::DENSE)
    a.kind = HashAttrs::Kind::kLshDense;
  else
    return InvalidModel("no projection type");
  return l.emit(Op::kHash, make_attrs<HashAttrs>(a), l.ins());
}

Status lower_skip_gram(Lowering& l) {
  const auto* o = l.options<tfl::SkipGramOptions>();
  if (!o) return InvalidModel("SkipGramOptions are missing");
  SkipGramAttrs a;
  a.ngram = o->ngram_size();
  a.max_skip = o->max_skip_size();
  a.all_ngrams = o->include_all_ngrams();
  if (a.ngram < 1 || a.max_skip < 0) return InvalidModel("n-grams of ", a.ngram, " words, skipping ", a.max_skip);
  return l.emit(Op::kSkipGram, make_attrs<SkipGramAttrs>(a), {l.in(0)});
}

Status lower_topk(Lowering& l) {
  TopKAttrs a;
  a.index_dtype = l.out_type(1).dtype;
  return l.emit_all(Op::kTopK, make_attrs<TopKAttrs>(a), l.ins());
}

Status lower_unique(Lowering& l) {
  UniqueAttrs a;
  a.sorted = false;
  a.index_dtype = l.outputs() > 1 ? l.out_type(1).dtype : DType::kI32;
  return l.b().node_to(Op::kUnique, make_attrs<UniqueAttrs>(a), {l.in(0)},
                       {l.out(0), kNoValue, l.outputs() > 1 ? l.out(1) : kNoValue});
}

Status lower_where(Lowering& l) {
  NonZeroAttrs a;
  a.rows = true;
  return l.emit_plain(Op::kNonZero, make_attrs<NonZeroAttrs>(a), {l.in(0)});
}

Status lower_bucketize(Lowering& l) {
  const auto* o = l.options<tfl::BucketizeOptions>();
  std::vector<float> edges;
  if (o && o->boundaries()) edges.assign(o->boundaries()->begin(), o->boundaries()->end());
  for (size_t i = 1; i < edges.size(); ++i)
    if (!(edges[i - 1] <= edges[i])) return InvalidModel("the boundaries do not ascend");
  const ValueId boundaries = l.b().constant(
      "", Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(edges.size())}, std::span<const float>(edges)));
  return l.emit(Op::kBucketize, make_attrs<SortAttrs>(), {l.in(0), boundaries});
}

Status lower_nms(Lowering& l) {
  NmsAttrs a;
  a.form = l.code() == Code::NON_MAX_SUPPRESSION_V4 ? NmsAttrs::Form::kTflite4 : NmsAttrs::Form::kTflite5;
  return l.emit_all(Op::kNonMaxSuppression, make_attrs<NmsAttrs>(a), l.ins());
}

Status lower_rfft2d(Lowering& l) {
  DftAttrs a;
  a.onesided = true;
  a.complex_dtype = true;
  a.dims = 2;
  return l.emit(Op::kDft, make_attrs<DftAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_random(Lowering& l) {
  RandomAttrs a;
  a.kind = l.code() == Code::RANDOM_UNIFORM ? RandomAttrs::Kind::kUniform : RandomAttrs::Kind::kNormal;
  a.to = l.out_type(0).dtype;
  if (const auto* o = l.options<tfl::RandomOptions>()) {
    a.seeded = o->seed() != 0 || o->seed2() != 0;
    a.seed = static_cast<double>(o->seed() ^ (o->seed2() << 16));
  }
  return l.emit(Op::kRandom, make_attrs<RandomAttrs>(a), {l.in(0)});
}

Status lower_multinomial(Lowering& l) {
  SMELT_ASSIGN(const auto samples, l.const_ints(1, "the number of samples"));
  if (samples.size() != 1 || samples[0] < 0) return InvalidModel("the number of samples is not one positive number");
  RandomAttrs a;
  a.kind = RandomAttrs::Kind::kMultinomial;
  a.to = l.out_type(0).dtype;
  a.samples = samples[0];
  if (const auto* o = l.options<tfl::RandomOptions>()) {
    a.seeded = o->seed() != 0 || o->seed2() != 0;
    a.seed = static_cast<double>(o->seed() ^ (o->seed2() << 16));
  }
  return l.emit(Op::kRandom, make_attrs<RandomAttrs>(a), {l.in(0)});
}

}  // namespace smelt::tflite
