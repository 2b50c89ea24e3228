#include "model/cost/kernel_cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/plan/software.h"

namespace plumbline::model {

namespace {

bool accumulates(const Operator& op) {
  const auto* attributes = std::get_if<MatmulAttributes>(&op.attributes);
  return attributes != nullptr && attributes->accumulate;
}

// Returns the bytes written per element of the result. An accumulated gradient is also read, or written in 16 bits for
// a kernel that accumulates it.
double output_bytes(const Graph& graph, const Operator& op, bool accumulated_apart) {
  if (accumulated_apart) return std::max(2.0, bytes_per_element(graph.tensor(op.reads[0]).type));
  return bytes_per_element(graph.tensor(op.writes[0]).type) * (accumulates(op) ? 2 : 1);
}

// Returns the largest power of 2 up to 16 that divides the bytes of a row of every tensor; heads of stored scores lie
// next to each other, so there it is a head's. Rows of quantized formats are padded.
std::int64_t row_alignment(const Graph& graph, const Operator& op) {
  std::int64_t alignment = 16;
  const auto divide = [&](std::int64_t columns, DataType type) {
    if (is_quantized(type)) return;
    const auto bytes = columns * static_cast<std::int64_t>(bytes_per_element(type));
    while (bytes % alignment != 0) alignment /= 2;
  };
  if (const auto* batched = std::get_if<BatchedMatmulAttributes>(&op.attributes)) {
    divide(std::gcd(batched->dim, batched->sequence_length), graph.tensor(op.reads[0]).type);
    return alignment;
  }
  for (const std::size_t i : {0, 1})
    divide(graph.tensor(op.reads[i]).shape.back().size, graph.tensor(op.reads[i]).type);
  divide(graph.tensor(op.writes[0]).shape.back().size, graph.tensor(op.writes[0]).type);
  return alignment;
}

// Returns the bytes per element of the operands, weighed by their elements.
double operand_bytes(const Graph& graph, const Operator& op, const GemmShape& shape) {
  const auto bytes = [&](std::size_t i) { return bytes_per_element(graph.tensor(op.reads[i]).type); };
  return (shape.m * bytes(0) + shape.n * bytes(1)) / (shape.m + shape.n);
}

std::int64_t ring_ranks(const Operator& op) {
  const auto* attributes = std::get_if<AttentionAttributes>(&op.attributes);
  return attributes == nullptr ? 1 : attributes->ring_ranks;
}

// Returns the seconds of the kernels of a ring of n ranks, each of which holds a piece from the front of the sequence
// and one from its back: one kernel over the rank's own keys, then n - 1 over half a rank's keys each. A rank whose own
// pieces come first in the ring runs some of them with half of its queries and all keys; the last one, for which the
// others wait, never does.
AttentionSeconds ring_parts(const AttentionConstants& form, const AttentionWork& work, double ranks, double sms,
                            double free_sms) {
  AttentionWork own = work;
  own.pairs_per_query /= ranks;
  own.keys /= ranks;
  own.longest = std::min(own.longest, own.keys);
  AttentionWork other = own;
  other.keys /= 2;
  other.longest = std::min(other.longest, other.keys);
  AttentionSeconds sum = attention_parts(form, own, sms, free_sms);
  const AttentionSeconds each = attention_parts(form, other, sms, free_sms);
  const auto add = [ranks](double& to, double one) { to += (ranks - 1) * one; };
  add(sum.gemms, each.gemms);
  add(sum.pairs, each.pairs);
  add(sum.rows, each.rows);
  add(sum.tail, each.tail);
  add(sum.keys_values, each.keys_values);
  return sum;
}

// Returns the bytes that merging the results of a ring's kernels moves: forward every partial output is scaled and
// added, backward the gradients of all kernels after the first are added to what is there (Transformer Engine,
// context_parallel.py: flash_attn_fwd_out_correction and the sums of dq and dkv).
Bytes merged_bytes(const Graph& graph, const Operator& op) {
  const auto ranks = static_cast<double>(ring_ranks(op));
  constexpr double passes = 3;  // two reads and a write
  if (op.kind == OperatorKind::attention) return passes * ranks * graph.tensor(op.writes[0]).bytes();
  Bytes gradients(0);
  for (const TensorId id : op.writes) gradients += graph.tensor(id).bytes();
  return passes * (ranks - 1) * gradients;
}

// Returns whether experts have equal rows: those that a kernel alone is asked for, or because a collective sends them
// padded to a capacity.
bool even_rows(const Graph& graph) {
  const auto permutation = std::ranges::find(graph.operators, OperatorKind::permute, &Operator::kind);
  if (permutation == graph.operators.end()) return true;
  const auto& sent = std::get<DispatchAttributes>(permutation->attributes);
  return is_collective(sent.dispatcher) && !sent.counts_rows;
}

// Returns by what part of their mean the rows of a group are more or fewer, taken as evenly drawn: tokens that choose
// experts by themselves, at random too, are spread like a Poisson distribution, of deviation sqrt(m), and an even one
// of half-width w has the deviation w / sqrt(3).
double row_spread(const Graph& graph, const Operator& op, double m) {
  return op.kind == OperatorKind::grouped_matmul && !even_rows(graph) ? std::min(1.0, std::sqrt(3 / m)) : 0;
}

// Returns the rows, in the order of experts, that an operator of training gathers or sums, if it does.
const Tensor* ordered_rows(const Graph& graph, const Operator& op) {
  const bool gathers = op.kind == OperatorKind::permute || op.kind == OperatorKind::gather_rows;
  const bool sums = op.kind == OperatorKind::permute_grad || op.kind == OperatorKind::unpermute;
  if ((!gathers && !sums) || graph.inference || op.phase == Phase::W) return nullptr;
  const Tensor& rows = graph.tensor(gathers ? op.writes[0] : op.reads[0]);
  return rows.shape[0].extent == Extent::rows ? &rows : nullptr;
}

bool rotates_by_factor(const Operator& op) {
  const auto* rotation = std::get_if<RotaryAttributes>(&op.attributes);
  return rotation != nullptr && rotation->scaled;
}

bool moves_data(CoRunner co_runner) { return co_runner == CoRunner::transferring || co_runner == CoRunner::collective; }

}  // namespace

SoftwareKernels software_kernels(const Plan& plan) {
  const auto fuses = [&](std::string_view name) {
    return std::ranges::find(plan.stack.fused, name) != plan.stack.fused.end();
  };
  return {plan.stack.dispatcher, fuses("router"), fuses("permute"), fuses_experts(plan), plan.loss.kernel};
}

// Every expert's capacity is a multiple of what its GEMMs take.
double KernelCost::padded_elements(const Graph& graph, const Operator& op) const {
  const Tensor* rows = padding_.value > 0 ? ordered_rows(graph, op) : nullptr;
  if (rows == nullptr) return 0;
  const auto gemm = std::ranges::find(graph.operators, OperatorKind::grouped_matmul, &Operator::kind);
  return is_quantized(graph.tensor(gemm->reads[0]).type) && !even_rows(graph) ? rows->elements() : 0;
}

std::array<Share, 3> KernelCost::search(const Graph& graph, const Operator& op, double row_scale,
                                        double copying) const {
  const bool searches = search_start_.value > 0 || search_time_.value > 0 || copy_search_time_.value > 0;
  if (!searches || ordered_rows(graph, op) == nullptr) return {};
  const bool sums = class_of(op.kind) == OperatorClass::reduce;
  const auto permutation = std::ranges::find(graph.operators, OperatorKind::permute, &Operator::kind);
  const auto experts = std::get<DispatchAttributes>(permutation->attributes).experts_per_rank;
  const auto& tokens = graph.tensor(sums ? op.writes[0] : op.reads[0]).shape;
  const double looked_up = static_cast<double>(tokens[0].size * experts) * row_scale;
  if (!sums) return {Share{copy_search_time_.index, std::max(0.0, copy_search_time_.value * looked_up - copying)}};
  constexpr double columns = 1024;  // that a block sums at once
  const double blocks = std::ceil(static_cast<double>(tokens[1].size) / columns);
  return {Share{}, Share{search_start_.index, search_start_.value * looked_up},
          Share{search_time_.index, search_time_.value * looked_up * blocks}};
}

const Constant& KernelCost::passes_of(const Operator& op) const {
  const Fusion& form = fusion(op);
  return rotates_by_factor(op) && form.factor_passes ? *form.factor_passes : form.passes;
}

const std::optional<Constant>& KernelCost::stated_launches(const Operator& op) const {
  const Fusion& form = fusion(op);
  // Rows that an all-to-all brought are sorted by chunks.
  static const std::optional<Constant> none;
  const auto* sent = std::get_if<DispatchAttributes>(&op.attributes);
  const bool permutes = op.kind == OperatorKind::permute || op.kind == OperatorKind::permute_grad;
  if (permutes && sent != nullptr && sent->dispatcher == Dispatcher::alltoall && sent->experts_per_rank < sent->experts)
    return none;
  const auto* routing = std::get_if<RouterAttributes>(&op.attributes);
  if (routing != nullptr && routing->groups > 1 && form.grouped) return form.grouped;
  if (routing != nullptr && routing->score == ScoreFunction::sigmoid && form.sigmoid) return form.sigmoid;
  if (rotates_by_factor(op) && form.factor_launches) return form.factor_launches;
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  return cast != nullptr && cast->finds_scale && form.scaled ? form.scaled : form.launches;
}

double KernelCost::launches(const Graph& graph, const Operator& op) const {
  if (op.fused) return 0;
  const auto& stated = stated_launches(op);
  const double once = stated ? stated->value : kernels(graph, op);
  if (op.kind != OperatorKind::grouped_matmul || graph.inference)
    return once * launched_apart(graph, op) + scale_swizzles(graph, op) + (padded_elements(graph, op) > 0 ? 1 : 0);
  return (experts_apart_ ? gemm_shape(graph, op, 1).groups : once) + scale_swizzles(graph, op);
}

double KernelCost::scale_swizzles(const Graph& graph, const Operator& op) const {
  if (graph.inference || !is_gemm(operator_class(graph, op))) return 0;
  const DataType operand = graph.tensor(op.reads[0]).type;
  if (operand != DataType::mxfp8 && operand != DataType::nvfp4) return 0;
  const bool apart = swizzles_apart_ && op.kind == OperatorKind::grouped_matmul;
  const double experts = apart ? gemm_shape(graph, op, 1).groups : 1;
  return experts * (activation_swizzles_ + (op.phase == Phase::W ? activation_swizzles_ : weight_swizzles_));
}

double KernelCost::launched_apart(const Graph& graph, const Operator& op) const {
  if (!experts_apart_) return 1;
  if (op.kind == OperatorKind::add_expert_bias || op.kind == OperatorKind::add_expert_bias_grad)
    return static_cast<double>(graph.tensor(op.reads[1]).shape[0].size);
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  return cast != nullptr ? static_cast<double>(cast->experts) : 1;
}

// Returns whether one kernel has the GEMMs of several experts.
bool KernelCost::is_grouped(const Operator& op) const {
  return op.kind == OperatorKind::grouped_matmul && op.phase != Phase::W && !experts_apart_;
}

int KernelCost::kernels(const Graph& graph, const Operator& op) const {
  if (op.kind == OperatorKind::grouped_matmul && op.phase == Phase::W)
    return fused_experts_ ? 1 : static_cast<int>(gemm_shape(graph, op, 1).groups);
  if (const auto* matmul = std::get_if<MatmulAttributes>(&op.attributes)) return static_cast<int>(matmul->chunks);
  const auto pieces = static_cast<int>(ring_ranks(op));
  if (op.kind == OperatorKind::attention && pieces > 1) return 3 * pieces;  // each with two merging kernels
  // row sums, main kernel, query-gradient conversion; in a ring two sums after each but the first
  if (op.kind == OperatorKind::attention_grad) return 3 * pieces + 2 * (pieces - 1);
  if (class_of(op.kind) == OperatorClass::scan) return scan_work(graph, op, true).kernels;
  if (op.kind == OperatorKind::gated_rmsnorm_grad || op.kind == OperatorKind::rmsnorm_grad ||
      op.kind == OperatorKind::layernorm_grad)
    return 3;  // main kernel, two reductions of the scale's gradient
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  return cast != nullptr && (cast->scales_transposed || cast->finds_scale) ? 2 : 1;
}

KernelTime KernelCost::time(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  if (op.fused) return {.passes = 0};
  const KernelTime time = usual(graph, op, conditions);
  if (slowdown_ == 1) return time;
  KernelTime longer = scaled(time, slowdown_);
  longer.gaps *= slowdown_;
  return longer;
}

KernelTime KernelCost::usual(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  if (!measured_.empty())
    if (const auto measured = as_measured(graph, op, conditions)) return *measured;
  const KernelTime time = by_form(graph, op, conditions);
  if (factors_ == nullptr) return time;
  KernelTime changed = scaled(time, shape_factor(graph, op));
  changed.seconds += time.gaps - changed.shares.back().seconds;
  changed.shares.back() = time.shares.back();
  return changed;
}

// Conditions do not enter: a shape that is slower than its cost function is so whatever else runs.
double KernelCost::shape_factor(const Graph& graph, const Operator& op) const {
  const auto kind = static_cast<double>(op.kind);
  const auto type = [&](TensorId id) { return static_cast<double>(graph.tensor(id).type); };
  switch (operator_class(graph, op)) {
    case OperatorClass::gemm:
    case OperatorClass::weight_gradient_gemm: {
      const GemmShape shape = gemm_shape(graph, op, 1);
      const bool weight_gradient = op.phase == Phase::W, grouped = is_grouped(op);
      const bool small = graph.inference && shape.m <= small_kind(graph, op).most_rows;
      const CostFamily family = small     ? grouped ? CostFamily::small_grouped_gemm : CostFamily::small_gemm
                                : grouped ? CostFamily::grouped_gemm
                                          : CostFamily::gemm;
      return factors_->factor(
          shape_key(family, {kind, weight_gradient ? 1.0 : 0.0, shape.groups, shape.m, shape.n, shape.k,
                             type(op.reads[0]), type(op.reads[1]), type(op.writes[0]), accumulates(op) ? 1.0 : 0.0}));
    }
    case OperatorClass::attention: {
      const AttentionWork work = attention_work(graph, op, true);
      const auto kernel = static_cast<double>(std::get<AttentionAttributes>(op.attributes).kernel);
      return factors_->factor(
          shape_key(CostFamily::attention,
                    {kernel, work.backward ? 1.0 : 0.0, work.batch_heads, work.kv_heads_batch, work.queries, work.keys,
                     work.longest, work.qk_dim, work.v_dim, work.element_bytes, static_cast<double>(ring_ranks(op))}));
    }
    case OperatorClass::cached_attention: {
      const CachedAttentionWork work = cached_attention_work(graph, op, true);
      return factors_->factor(shape_key(CostFamily::cached_attention, {work.requests, work.queries, work.query_heads,
                                                                       work.kv_heads, work.pairs_per_query, work.keys,
                                                                       work.qk_dim, work.v_dim, work.key_value_bytes}));
    }
    case OperatorClass::router:
      return factors_->factor(shape_key(CostFamily::memory_bound, {kind}));
    default:
      return factors_->factor(shape_key(CostFamily::memory_bound, {kind, bytes_moved(graph, op, 1).value()}));
  }
}

// Scales the measured time by the formula's ratio between these conditions and those of the measurement. Measurements
// have the expected rows, and either no co-runner or a transfer and the SMs that it leaves. Memory-bound kernels were
// measured on as many SMs as are free of a co-runner.
std::optional<KernelTime> KernelCost::as_measured(const Graph& graph, const Operator& op,
                                                  const Conditions& conditions) const {
  const OperatorClass kind = operator_class(graph, op);
  const std::string key = operator_key(graph, op);
  const std::int64_t free = occupancy(conditions).free;
  Conditions then_under = conditions;
  then_under.row_scale = then_under.clock = then_under.bandwidth = 1;
  std::optional<Constant> measured;
  if (conditions.co_runner == CoRunner::transferring) measured = measured_.find(key, {free, true});
  if (!measured) {
    measured = measured_.find(key, {is_gemm(kind) ? conditions.sms : free});
    if (is_gemm(kind)) then_under.held = 0;
    if (is_gemm(kind) || kind == OperatorClass::attention || kind == OperatorClass::cached_attention)
      then_under.co_runner = CoRunner::none;
  }
  if (!measured) return std::nullopt;
  const KernelTime now = by_form(graph, op, conditions), then = by_form(graph, op, then_under);
  const double formula = then.seconds - then.gaps;
  const double factor = formula > 0 ? (now.seconds - now.gaps) / formula : 1;
  KernelTime result;
  result.shares[0] = {measured->index, measured->value};
  return with_gaps(scaled(result, factor), 1);
}

KernelTime KernelCost::by_form(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  switch (operator_class(graph, op)) {
    case OperatorClass::gemm:
    case OperatorClass::weight_gradient_gemm:
      return gemm(graph, op, conditions);
    case OperatorClass::attention:
      return attention(graph, op, conditions);
    case OperatorClass::cached_attention:
      return cached_attention(graph, op, conditions);
    case OperatorClass::router:
      return router(graph, op, conditions);
    case OperatorClass::scan:
      return scan(graph, op, conditions);
    default:
      return memory_bound(graph, op, conditions);
  }
}

SmOccupancy KernelCost::occupancy(const Conditions& conditions) const {
  return {std::max<std::int64_t>(1, device_sms_ - conditions.held), conditions.held,
          free_share_[static_cast<std::size_t>(conditions.co_runner)]};
}

KernelCost::GemmFormat KernelCost::gemm_format(DataType operand) {
  switch (operand) {
    case DataType::fp8_tile:
    case DataType::fp8_block:
      return GemmFormat::fp8;
    case DataType::fp8:
      return GemmFormat::fp8_tensor;
    case DataType::mxfp8:
      return GemmFormat::mxfp8;
    case DataType::nvfp4:
      return GemmFormat::nvfp4;
    case DataType::mxfp4:
      return GemmFormat::mxfp4;
    case DataType::fp32:
      return GemmFormat::fp32;
    default:
      return GemmFormat::bf16;
  }
}

const KernelCost::GemmKind& KernelCost::gemm_kind(const Graph& graph, const Operator& op) const {
  const GemmFormat format = gemm_format(graph.tensor(op.reads[0]).type);
  return gemms_[static_cast<std::size_t>(format)][op.phase == Phase::W ? 1 : 0];
}

bool KernelCost::has_gemm(Precision precision) const {
  return gemms_[static_cast<std::size_t>(gemm_format(activation_type(precision)))][0].k_time.index >= 0;
}

// The factor of rows that do not begin at multiples of 16 bytes, which kernels load in smaller pieces.
Constant KernelCost::unaligned(const Graph& graph, const Operator& op) const {
  if (pads_vocabulary_ && op.section == Section::head) return {-1, 1};
  switch (row_alignment(graph, op)) {
    case 16:
      return {-1, 1};
    case 8:
      return unaligned_[0];
    case 4:
      return unaligned_[1];
    default:
      return unaligned_[2];
  }
}

// Where no GEMM accumulates, a memory-bound kernel adds its result to the gradient.
double KernelCost::accumulation(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const Bytes bytes(graph.tensor(op.writes[0]).elements() * accumulation_bytes_.value);
  return streaming(memory_[static_cast<std::size_t>(OperatorClass::elementwise)], bytes, occupancy(conditions));
}

KernelTime KernelCost::gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  if (graph.inference) return inference_gemm(graph, op, conditions);
  return tiled_gemm(graph, op, conditions, gemm_shape(graph, op, conditions.row_scale));
}

// Persistent kernels have one block per SM; the tiles of all groups fill waves over the SMs of the launch. GEMMs of
// experts that are launched one by one, and grouped weight gradients, are a kernel for each expert, so that every
// expert ends with its own partial wave: a kernel fills the GPU, and one on another stream waits for it. Blocks whose
// SM is taken by a co-runner run when the others are done; the blocks of fused experts take their tiles as they come
// free, so that those which begin late find none left. Chunks of tokens are GEMMs one after another.
KernelTime KernelCost::tiled_gemm(const Graph& graph, const Operator& op, const Conditions& conditions,
                                  const GemmShape& shape) const {
  const GemmKind& kind = gemm_kind(graph, op);
  GemmConstants form = kind.form;
  if (graph.tensor(op.reads[0]).type == DataType::tf32) form.k_time *= tf32_slowdown_;
  const Constant slower = unaligned(graph, op);
  form.k_time *= slower.value;
  const bool apart = accumulation_bytes_.value > 0 && accumulates(op);
  form.memory_bandwidth *= conditions.bandwidth;
  const bool weight_gradient = op.phase == Phase::W;
  const bool fused = op.kind == OperatorKind::grouped_matmul && fused_experts_;
  const bool grouped = is_grouped(op);
  const bool per_expert = op.kind == OperatorKind::grouped_matmul && !grouped && !fused;
  const double launches = op.kind == OperatorKind::matmul || per_expert ? shape.groups : 1;
  const double spread = graph.inference ? 0 : row_spread(graph, op, weight_gradient ? shape.k : shape.m);
  const GemmWork work{shape.groups / launches,
                      shape.m,
                      shape.n,
                      shape.k,
                      operand_bytes(graph, op, shape),
                      output_bytes(graph, op, apart),
                      weight_gradient ? 0 : spread,
                      weight_gradient ? spread : 0};
  const SmOccupancy place = occupancy(conditions);
  const auto launched = static_cast<double>(conditions.sms);
  const double sms = fused ? std::min(launched, std::max(1.0, place.effective(1))) : launched;
  const double tiles = gemm_tiles(form, work), count = launches * (grouped ? kind.grouped_slowdown : 1);
  const GemmSeconds core = gemm_core(form, work, sms);
  const double written = launches * tiles * form.tile_m * form.tile_n * work.output_bytes;
  const double operands = shape.groups * (shape.m + shape.n) * shape.k / sms;
  const bool streams = form.memory_bandwidth > 0;
  KernelTime result;
  result.shares = {Share{kind.ramp.index, launches * form.ramp},
                   Share{kind.wave_overhead.index, count * core.waves},
                   Share{kind.k_time.index, count * core.tiles / slower.value},
                   streams ? Share{kind.memory_bandwidth.index, count * core.memory}
                           : Share{gemm_output_bandwidth_.index, written / gemm_output_bandwidth_.value},
                   Share{kind.operand_time.index, operands * kind.operand_time.value},
                   Share{kind.droop.index, count * core.droop},
                   Share{slower.index, count * core.tiles * (1 - 1 / slower.value)}};
  const double again = fused ? 1 : rounds(std::min(conditions.sms, static_cast<std::int64_t>(tiles)), 1, place, 1);
  const double slowdown = moves_data(conditions.co_runner) && conditions.bandwidth == 1 ? gemm_slowdown_ : 1;
  result = scaled(result, again * slowdown / (sustained_clock_ * conditions.clock));
  if (apart) {
    const double times = op.kind == OperatorKind::matmul ? shape.groups : 1;
    result.shares[7] = {accumulation_bytes_.index, times * accumulation(graph, op, conditions)};
    result.seconds += result.shares[7].seconds;
  }
  const double swizzles = scale_swizzles(graph, op);
  result.shares[8] = {shortest_kernel_.index, swizzles * shortest_kernel_.value};
  result.seconds += result.shares[8].seconds;
  return with_gaps(result, launches * (apart ? 2 : 1) + swizzles);
}

const KernelCost::SmallGemmKind& KernelCost::small_kind(const Graph& graph, const Operator& op) const {
  const GemmKind& kind = gemm_kind(graph, op);
  if (op.kind != OperatorKind::grouped_matmul) return kind.small;
  const auto dispatches = [](const Operator& other) { return other.kind == OperatorKind::dispatch; };
  // Kernels that widen the weights as they read them (Marlin, OpenAI's triton_kernels) are others than those with an
  // index.
  const bool widens = gemm_format(graph.tensor(op.reads[0]).type) != gemm_format(graph.tensor(op.reads[1]).type);
  if (indexed_experts_ && kind.indexed_small && !widens && std::ranges::none_of(graph.operators, dispatches))
    return *kind.indexed_small;
  return kind.grouped_small;
}

// A clock slows what the SMs bound and not the memory.
KernelTime KernelCost::small_gemm(const Graph& graph, const Operator& op, const Conditions& conditions,
                                  const GemmShape& shape) const {
  const SmallGemmKind& kind = small_kind(graph, op);
  const double clock = sustained_clock_ * conditions.clock;
  SmallGemmConstants form = kind.form;
  form.bandwidth *= conditions.bandwidth;
  form.k_time /= clock;
  form.rate *= clock / (graph.tensor(op.reads[0]).type == DataType::tf32 ? tf32_slowdown_ : 1);
  const GemmWork work{shape.groups,
                      shape.m,
                      shape.n,
                      shape.k,
                      operand_bytes(graph, op, shape),
                      bytes_per_element(graph.tensor(op.writes[0]).type),
                      row_spread(graph, op, shape.m)};
  const double share = static_cast<double>(conditions.sms) / static_cast<double>(device_sms_);
  const SmallGemmSeconds core = small_gemm_core(form, work, share);
  KernelTime result;
  result.shares = {Share{kind.start.index, form.start}, Share{kind.k_time.index, core.inner},
                   Share{kind.rate.index, core.tiles}, Share{kind.bandwidth.index, core.memory},
                   Share{kind.row_time.index, core.rows}};
  const double again = rounds(conditions.sms, 1, occupancy(conditions), 1);
  const double slowdown = moves_data(conditions.co_runner) && conditions.bandwidth == 1 ? gemm_slowdown_ : 1;
  return with_gaps(scaled(result, again * slowdown), 1);
}

// Beyond the rows that kernels for few rows were measured with, the time is that of large GEMMs, times a factor by
// which both agree at the limit and which fades with more rows; a kernel that is slower with the rows of prompts stays
// so. It never falls with more rows, nor below the rate of either.
KernelTime KernelCost::inference_gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  GemmShape shape = gemm_shape(graph, op, conditions.row_scale);
  const double most_rows = small_kind(graph, op).most_rows;
  if (shape.m <= most_rows) return small_gemm(graph, op, conditions, shape);
  const KernelTime large = tiled_gemm(graph, op, conditions, shape);
  const double floor =
      gemm_at_best(graph, op, shape) * static_cast<double>(device_sms_) / static_cast<double>(conditions.sms);
  const double share = most_rows / shape.m;
  shape.m = most_rows;
  const double small_limit = small_gemm(graph, op, conditions, shape).seconds;
  const double large_limit = tiled_gemm(graph, op, conditions, shape).seconds;
  const double ratio = small_limit / large_limit;
  const bool stays = ratio > 1 && most_rows > small_gemm_rows;
  const double fading = stays ? ratio : std::pow(std::min(1.0, ratio), share);
  const double factor = std::max({fading, small_limit / large.seconds, floor / large.seconds});
  KernelTime result = scaled(large, factor);
  result.gaps *= factor;
  return result;
}

const KernelCost::AttentionKind& KernelCost::attention_kind(const Graph& graph, const Operator& op,
                                                            bool backward) const {
  const std::size_t direction = backward ? 1 : 0;
  const DataType query = graph.tensor(op.reads[direction]).type;
  if (query == DataType::fp8) return attention_[attention_.size() - 2][direction];
  if (query == DataType::mxfp8) return attention_.back()[direction];
  return attention_[static_cast<std::size_t>(std::get<AttentionAttributes>(op.attributes).kernel)][direction];
}

std::pair<AttentionWork, const KernelCost::AttentionKind*> KernelCost::attention_at_work(const Graph& graph,
                                                                                         const Operator& op) const {
  const AttentionWork work = attention_work(graph, op, true);
  const AttentionKind& kind = attention_kind(graph, op, work.backward);
  return {kind.skips_window ? work : without_window(op, work), &kind};
}

bool KernelCost::has_attention(Precision precision) const {
  return (precision == Precision::mxfp8 ? attention_.back() : attention_[attention_.size() - 2])[0].rate.index >= 0;
}

// The kernel is not persistent: one block per query tile fills an SM, so the rate is proportional to the free SMs. The
// backward constants include the auxiliary kernels (row sums of dO and O, conversion of the query gradient). A ring
// runs one kernel for each rank's keys and merges the results.
KernelTime KernelCost::attention(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const auto [work, constants] = attention_at_work(graph, op);
  const AttentionKind& kind = *constants;
  const auto ranks = static_cast<double>(ring_ranks(op));
  const auto free = static_cast<double>(occupancy(conditions).free);
  const AttentionSeconds parts = ranks > 1 ? ring_parts(kind.form, work, ranks, attention_sms_, free)
                                           : attention_parts(kind.form, work, attention_sms_, free);
  KernelTime result;
  result.shares = {Share{kind.rate.index, parts.gemms}, Share{kind.pair_time.index, parts.pairs},
                   Share{kind.row_time.index, parts.rows}, Share{kind.tail.index, parts.tail},
                   Share{kind.kv_bandwidth.index, parts.keys_values}};
  if (ranks > 1) {
    const Memory& merging = memory_[static_cast<std::size_t>(OperatorClass::elementwise)];
    result.shares[5] = {merging.bandwidth.index, streaming(merging, merged_bytes(graph, op), occupancy(conditions))};
  }
  const double slowdown = moves_data(conditions.co_runner) ? attention_slowdown_ : 1;
  return with_gaps(scaled(result, slowdown / (sustained_clock_ * conditions.clock)), launches(graph, op));
}

// Many small blocks use whatever a co-runner leaves of an SM; a grid sized for the whole GPU needs another round.
double KernelCost::streaming(const Memory& memory, Bytes bytes, const SmOccupancy& occupancy) const {
  const double whole = bytes.value() / memory.bandwidth.value;
  if (memory.blocks_per_sm > 0)
    return whole * rounds(memory.blocks_per_sm * device_sms_, memory.blocks_per_sm, occupancy, latency_share_);
  return whole / std::min(1.0, occupancy.effective(streaming_blocks_) / memory.saturation_sms);
}

double KernelCost::indexed_elements(const Graph& graph, const Operator& op, double row_scale) const {
  const Fusion& form = fusion(op);
  const double each = rotates_by_factor(op) && form.factor_indexed ? form.factor_indexed->value : form.indexed.value;
  return each > 0 ? each * elements(graph.tensor(op.reads[0]), row_scale) : 0;
}

double KernelCost::indexing(double elements, const Conditions& conditions) const {
  const double sms = occupancy(conditions).effective(streaming_blocks_);
  return elements * index_time_.value / (sms * sustained_clock_ * conditions.clock);
}

KernelTime KernelCost::memory_bound(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const Memory& memory = memory_[static_cast<std::size_t>(operator_class(graph, op))];
  const Constant& passes = passes_of(op);
  const auto& stated = stated_launches(op);
  const Bytes moved = bytes_moved(graph, op, conditions.row_scale);
  const double once = streaming(memory, moved, occupancy(conditions)) / conditions.bandwidth;
  const double streamed = once * passes.value;
  const double indexed = indexed_elements(graph, op, conditions.row_scale);
  const double by_index = indexing(indexed, conditions);
  const double seconds = streamed + by_index;
  const double shortest = shortest_kernel_.value * (stated ? stated->value : 1) * launched_apart(graph, op);
  KernelTime result;
  if (seconds >= shortest) {
    result.shares[0] = {memory.bandwidth.index, std::min(streamed, once)};
    result.shares[2] = {passes.index, std::max(0.0, streamed - once)};
    result.shares[7] = {index_time_.index, by_index};
  } else {
    result.shares[0] = {shortest_kernel_.index, shortest};
  }
  const auto* cast = std::get_if<CastAttributes>(&op.attributes);
  const bool lays_out = cast != nullptr && cast->scales_transposed;
  // Engines sort the choices of a pass in one kernel.
  const bool maps = op.kind == OperatorKind::permute && !graph.inference;
  const Constant* extra = lays_out ? &scale_layout_ : maps ? &map_time_ : nullptr;
  if (extra != nullptr) result.shares[1] = {extra->index, extra->value};
  const Memory& copies = memory_[static_cast<std::size_t>(OperatorClass::elementwise)];
  const double padded = padded_elements(graph, op) * conditions.row_scale;
  const Bytes copied(4 * padding_.value * padded);  // 16 bits, read and written
  result.passes = passes.value + (padded > 0 ? copied.value() / moved.value() : 0);
  // An indexed element is read and written.
  if (indexed > 0) result.passes += 2 * indexed * bytes_per_element(graph.tensor(op.reads[0]).type) / moved.value();
  result.shares[3] = {padding_.index, streaming(copies, copied, occupancy(conditions)) / conditions.bandwidth};
  std::ranges::copy(search(graph, op, conditions.row_scale, std::max(seconds, shortest)), result.shares.begin() + 4);
  return with_gaps(scaled(result, 1), launches(graph, op));
}

// The kernels of chunks have few products for what they move, and the next product of a chunk waits for the one before
// it: the times of both add up, and chunks wait for the states of those before them. A selective scan has no products:
// its arithmetic and its loads take turns between barriers. Tokens one by one have no GEMM.
KernelTime KernelCost::scan(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  KernelTime time = memory_bound(graph, op, conditions);
  if (op.kind == OperatorKind::scan_step) return time;
  const auto& a = std::get<ScanAttributes>(op.attributes);
  const auto sms = static_cast<double>(occupancy(conditions).free);
  const double clock = sustained_clock_ * conditions.clock, work = flops(graph, op, 1, true).value();
  if (a.selective()) {
    time.shares[7] = {lane_time_.index, work * lane_time_.value / (sms * clock)};
    time.seconds += time.shares[7].seconds;
    return time;
  }
  const bool backward = op.kind == OperatorKind::scan_grad || op.kind == OperatorKind::scan_state_grad;
  const Scan& scan = scans_[static_cast<std::size_t>(a.kind)][backward ? 1 : 0];
  const GemmConstants& form = gemms_[static_cast<std::size_t>(GemmFormat::bf16)][0].form;
  const double rate = 2 * form.tile_m * form.tile_n * sms / form.k_time * scan.gemm_share.value;
  const double products = work / (rate * clock);
  const Tensor& mixed = graph.tensor(op.reads[backward ? 1 : 0]);
  const double tokens = static_cast<double>(mixed.shape[0].size), length = static_cast<double>(a.sequence_length);
  const double waits = waiting_chunks(a, tokens / length, length, sms) * scan.chunk_time.value / clock;
  time.shares[7] = {scan.gemm_share.index, products};
  time.shares[8] = {scan.chunk_time.index, waits};
  time.seconds += products + waits;
  return time;
}

double KernelCost::moving(Bytes bytes, const Conditions& conditions) const {
  const Memory& memory = memory_[static_cast<std::size_t>(OperatorClass::elementwise)];
  const double seconds = streaming(memory, bytes, occupancy(conditions)) / conditions.bandwidth;
  KernelTime time;
  time.shares[0] = {memory.bandwidth.index, std::max(seconds, shortest_kernel_.value)};
  return with_gaps(scaled(time, 1), 1).seconds;
}

// A router is tens of tiny kernels. Those that a stack counts are short ones, and take more by the scores that they
// read; the profile's constant is of another router, with its gaps and its scores.
KernelTime KernelCost::router(const Graph& graph, const Operator& op, const Conditions& conditions) const {
  const bool forward = op.kind == OperatorKind::router;
  const TensorId logits = op.reads[forward ? 0 : 1];
  const auto& stated = stated_launches(op);
  KernelTime result;
  if (stated) {
    const Constant& pair = forward ? router_forward_pair_ : router_backward_pair_;
    result.shares[0] = {shortest_kernel_.index, shortest_kernel_.value * stated->value};
    result.shares[1] = {pair.index, pair.value * graph.tensor(logits).elements()};
  } else {
    const Constant& constant = forward ? router_forward_ : router_backward_;
    result.shares[0] = {constant.index, constant.value};
  }
  double wide = 0;  // elements of what the router reads, whose gradient is computed in FP32
  for (const Operator& gemm : graph.operators)
    if (!forward && !gemm.writes.empty() && gemm.writes[0] == logits) wide = graph.tensor(gemm.reads[0]).elements();
  const Memory& memory = memory_[static_cast<std::size_t>(OperatorClass::elementwise)];
  const Bytes copied(wide * router_gradient_bytes_.value);
  result.shares[2] = {router_gradient_bytes_.index,
                      streaming(memory, copied, occupancy(conditions)) / conditions.bandwidth};
  result.passes = 1 + copied.value() / bytes_moved(graph, op, 1).value();
  return with_gaps(scaled(result, 1), stated ? stated->value : 0);
}

// Returns the time with each share multiplied by the factor; the seconds are the sum of the shares.
KernelTime KernelCost::scaled(KernelTime time, double factor) const {
  time.seconds = 0;
  for (Share& share : time.shares) {
    share.seconds *= factor;
    time.seconds += share.seconds;
  }
  return time;
}

KernelTime KernelCost::with_gaps(KernelTime time, double count) const {
  const double gaps = count * launch_gap_.value;
  time.seconds += gaps;
  time.gaps = gaps;
  time.shares.back() = {launch_gap_.index, gaps};
  return time;
}

}  // namespace plumbline::model
