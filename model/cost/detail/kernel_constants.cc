// The constants of a profile as the cost functions of kernels use them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>

#include "model/cost/kernel_cost.h"

namespace plumbline::model {

namespace {

bool is_memory_class(OperatorClass value) { return value >= OperatorClass::norm && value <= OperatorClass::optimizer; }

Block read_block(ConstantReader& reader, std::string_view name) {
  const auto part = [&](std::string_view what) { return reader.require(fmt::format("{}.{}", name, what)).value; };
  return {part("threads"), part("registers"), part("shared_memory")};
}

}  // namespace

Result<KernelCost> KernelCost::make(const Profile& profile, const Device& device, const SoftwareKernels& software) {
  ConstantReader reader(profile);
  KernelCost cost;
  cost.device_sms_ = device.sms;
  if (device.tf32_peak.value() > 0) cost.tf32_slowdown_ = device.bf16_peak / device.tf32_peak;
  cost.read_gemms(reader);
  cost.gemm_output_bandwidth_ = reader.require_either("gemm.output_bandwidth", "memory.default.bandwidth");
  cost.gemm_slowdown_ = reader.require("gemm.slowdown_beside_transfer").value;
  cost.accumulation_bytes_ = reader.find("gemm.accumulation_bytes").value_or(Constant{});
  cost.weight_swizzles_ = reader.value("gemm.weight_swizzles");
  cost.activation_swizzles_ = reader.value("gemm.activation_swizzles");
  cost.swizzles_apart_ = reader.value("gemm.experts_swizzled_apart") > 0;
  cost.unaligned_ = {reader.find("gemm.slowdown_aligned_8").value_or(Constant{-1, 1}),
                     reader.find("gemm.slowdown_aligned_4").value_or(Constant{-1, 1}),
                     reader.find("gemm.slowdown_aligned_2").value_or(Constant{-1, 1})};
  cost.pads_vocabulary_ = reader.value("gemm.pads_vocabulary") > 0;
  cost.read_attention(reader);
  cost.read_cached_attention(reader);
  cost.attention_slowdown_ = reader.require("attention.slowdown_beside_transfer").value;
  cost.sustained_clock_ = reader.require("kernel.sustained_clock").value;
  cost.latency_share_ = reader.require("kernel.latency_share").value;
  cost.launch_gap_ = reader.require("kernel.launch_gap");
  cost.shortest_kernel_ = reader.require("kernel.shortest");
  cost.index_time_ = reader.find("kernel.index_time").value_or(Constant{});
  cost.read_scans(reader);
  cost.scale_layout_ = reader.require("kernel.scale_layout");
  cost.router_forward_ = reader.require("router.forward");
  cost.router_backward_ = reader.require("router.backward");
  const auto routes = [&](std::string_view what) {
    return reader.find(fmt::format("router.{}{}", software.fused_router ? "fused." : "", what)).value_or(Constant{});
  };
  cost.router_forward_pair_ = routes("forward_pair_time");
  cost.router_backward_pair_ = routes("backward_pair_time");
  cost.router_gradient_bytes_ =
      reader.find(fmt::format("router.{}.gradient_bytes", software.dispatcher)).value_or(Constant{});
  // The time before HybridEP's dispatch contains its map of rows.
  const bool maps_before = software.dispatcher == "hybridep" && reader.find("exchange.hybridep.map_expert_time");
  cost.map_time_ = maps_before ? Constant{} : reader.require("permute.map");
  const auto permutes = [&](std::string_view what) {
    return reader.find(fmt::format("permute.{}.{}", software.dispatcher, what)).value_or(Constant{});
  };
  cost.padding_ = permutes("padding_passes");
  if (const auto padding = reader.find(fmt::format("permute.{}.fused.padding_passes", software.dispatcher));
      padding && software.fused_permute)
    cost.padding_ = *padding;
  cost.search_start_ = permutes("search_start");
  cost.search_time_ = permutes("search_time");
  cost.copy_search_time_ = permutes("copy_search_time");
  cost.indexed_experts_ = reader.value("serving.indexed_experts") > 0;
  cost.read_memory_classes(reader);
  if (permutes("at_copy_rate").value > 0)
    cost.memory_[static_cast<std::size_t>(OperatorClass::permute)].bandwidth =
        reader.require("memory.default.bandwidth");
  cost.read_fusion(reader, software);
  cost.read_free_shares(reader, device);
  if (reader.error()) return tl::unexpected(*reader.error());
  cost.measured_ = TRY(MeasuredOperators::read(profile));
  return cost;
}

// Reads the constants of GEMMs of one name. Where the profile lacks one, that of `forward` holds if it is given, else
// the one for all kinds or none.
KernelCost::GemmKind KernelCost::read_gemm(ConstantReader& reader, std::string_view name,
                                           const GemmKind* forward) const {
  const auto own = [&](std::string_view what) { return reader.find(fmt::format("gemm.{}.{}", name, what)); };
  const auto value = [&](std::string_view what, double otherwise) {
    return own(what).value_or(Constant{-1, otherwise}).value;
  };
  GemmKind kind = forward != nullptr ? *forward : GemmKind{};
  if (forward == nullptr) {
    kind.ramp = reader.require("gemm.ramp");
    kind.form.tile_m = kind.form.tile_n = reader.require("gemm.tile").value;
    kind.form.k_block = reader.require("gemm.k_block").value;
  }
  kind.operand_time = reader.require_either(fmt::format("gemm.{}.operand_time", name), "gemm.operand_time");
  for (const auto& [what, constant, part] :
       {std::tuple("ramp", &kind.ramp, &kind.form.ramp),
        std::tuple("wave_overhead", &kind.wave_overhead, &kind.form.wave_overhead),
        std::tuple("k_time", &kind.k_time, &kind.form.k_time),
        std::tuple("memory_bandwidth", &kind.memory_bandwidth, &kind.form.memory_bandwidth),
        std::tuple("droop", &kind.droop, &kind.form.droop)}) {
    *constant = own(what).value_or(*constant);
    *part = constant->value;
  }
  kind.form.tile_m = value("tile_m", kind.form.tile_m);
  kind.form.tile_n = value("tile_n", kind.form.tile_n);
  kind.form.k_block = value("k_block", kind.form.k_block);
  kind.form.wave_share = value("wave_share", kind.form.wave_share);
  kind.form.memory_exponent = value("memory_exponent", kind.form.memory_exponent);
  kind.form.droop_time = value("droop_time", kind.form.droop_time);
  kind.grouped_slowdown = value("grouped_slowdown", kind.grouped_slowdown);
  if (forward == nullptr) read_small_gemms(reader, name, kind);
  return kind;
}

// A profile without constants for few rows takes the ramp and rate of its large GEMMs, and the bandwidth of
// memory-bound kernels; without ones for groups, those of single GEMMs. The divided inner dimensions of many groups
// follow one another, so that groups have no k_time.
void KernelCost::read_small_gemms(ConstantReader& reader, std::string_view name, GemmKind& kind) const {
  const auto own = [&](std::string_view what, const Constant& otherwise) {
    return reader.find(fmt::format("gemm.{}.{}", name, what)).value_or(otherwise);
  };
  const double least = reader.find("gemm.small_m_tile").value_or(Constant{-1, SmallGemmConstants{}.tile}).value;
  const double tile = std::min(least, kind.form.tile_m);  // of CPUs it is one row
  const auto small = [tile](const Constant& start, const Constant& bandwidth, const Constant& k_time,
                            const Constant& rate) -> SmallGemmKind {
    return {{start.value, bandwidth.value, k_time.value, rate.value, tile}, start, bandwidth, k_time, rate, {}};
  };
  struct GroupedNames {
    std::string_view start, bandwidth, rate, row_time, tile_depth, rows;
  };
  const auto grouped = [&](const GroupedNames& names, const SmallGemmKind& otherwise) {
    SmallGemmKind groups = small(own(names.start, otherwise.start), own(names.bandwidth, otherwise.bandwidth), {},
                                 own(names.rate, otherwise.rate));
    groups.row_time = own(names.row_time, {});
    groups.form.row_time = groups.row_time.value;
    groups.form.tile_depth = own(names.tile_depth, {}).value;
    groups.most_rows = own(names.rows, {-1, small_gemm_rows}).value;
    return groups;
  };
  const double rate = 2 * kind.form.tile_m * kind.form.tile_n * static_cast<double>(device_sms_) / kind.k_time.value;
  kind.small =
      small(own("small_m_start", kind.ramp), own("small_m_bandwidth", reader.require("memory.default.bandwidth")),
            own("small_m_k_time", {}), own("small_m_rate", {kind.k_time.index, rate}));
  kind.grouped_small = grouped({"grouped_small_m_start", "grouped_small_m_bandwidth", "grouped_small_m_rate",
                                "grouped_small_m_row_time", "grouped_small_m_tile_depth", "grouped_small_m_rows"},
                               kind.small);
  if (own("indexed_small_m_rate", {}).index < 0) return;
  kind.indexed_small = grouped({"indexed_small_m_start", "indexed_small_m_bandwidth", "indexed_small_m_rate",
                                "indexed_small_m_row_time", "indexed_small_m_tile_depth", "indexed_small_m_rows"},
                               kind.grouped_small);
}

// Every profile has the times of BF16, FP32 and FP8 in both directions. The other formats run as FP8 where it has none
// of theirs, or not at all.
void KernelCost::read_gemms(ConstantReader& reader) {
  static constexpr auto names =
      std::to_array<std::string_view>({"bf16", "fp32", "fp8", "fp8_tensor", "mxfp8", "nvfp4", "mxfp4"});
  const auto require_times = [&](const std::string& name) {
    reader.require(fmt::format("gemm.{}.wave_overhead", name));
    reader.require(fmt::format("gemm.{}.k_time", name));
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto format = static_cast<GemmFormat>(i);
    const std::string name(names[i]), gradient = name + "_weight_gradient";
    const bool in_every_profile = format <= GemmFormat::fp8;
    if (in_every_profile || reader.find(fmt::format("gemm.{}.k_time", name))) {
      require_times(name);
      if (in_every_profile) require_times(gradient);
      gemms_[i][0] = read_gemm(reader, name, nullptr);
      gemms_[i][1] = read_gemm(reader, gradient, &gemms_[i][0]);
    } else if (format == GemmFormat::fp8_tensor || format == GemmFormat::mxfp8) {
      gemms_[i] = gemms_[static_cast<std::size_t>(GemmFormat::fp8)];
    }
  }
}

// A kernel of which the profile has no rate runs as the one that it was measured with; in a format of which it has
// none, not at all.
void KernelCost::read_attention(ConstantReader& reader) {
  attention_sms_ = reader.require("attention.reference_sms").value;
  for (std::size_t i = 0; i < attention_.size(); ++i) {
    const std::size_t formats = attention_.size() - i;  // from this one on
    const std::string name = i == 0         ? ""
                             : formats == 2 ? "fp8."
                             : formats == 1 ? "mxfp8."
                                            : fmt::format("{}.", to_string(static_cast<AttentionKernel>(i)));
    if (formats > 2) attention_[i] = attention_[0];
    if (i == 0 || reader.find(fmt::format("attention.{}forward_rate", name)))
      attention_[i] = {read_attention(reader, name, "forward"), read_attention(reader, name, "backward")};
  }
}

KernelCost::AttentionKind KernelCost::read_attention(ConstantReader& reader, const std::string& kernel,
                                                     std::string_view direction) const {
  const auto own = [&](std::string_view what) { return reader.find(fmt::format("attention.{}{}", kernel, what)); };
  const auto optional = [&](std::string_view what) {
    return own(fmt::format("{}.{}", direction, what)).value_or(Constant{});
  };
  AttentionKind kind{.rate = reader.require(fmt::format("attention.{}{}_rate", kernel, direction)),
                     .pair_time = optional("pair_time"),
                     .row_time = optional("row_time"),
                     .tail = optional("tail"),
                     .kv_bandwidth = own("kv_bandwidth").value_or(Constant{}),
                     .skips_window = optional("skips_window").index < 0 || optional("skips_window").value > 0};
  kind.form = {kind.rate.value, kind.pair_time.value,    kind.row_time.value,
               kind.tail.value, kind.kv_bandwidth.value, own("dim_block").value_or(Constant{-1, 1}).value};
  return kind;
}

// An operator's own constants come before those of its class. Of routing, those of a fusion come before those of a
// dispatcher, and one fused kernel scores and chooses in any way.
void KernelCost::read_fusion(ConstantReader& reader, const SoftwareKernels& software) {
  static constexpr auto kinds = std::to_array<std::string_view>({
#define OPERATOR(kind, ...) #kind,
#include "model/graph/operators.def"
  });
  fusion_.resize(kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const OperatorClass kind = class_of(static_cast<OperatorKind>(i));
    const bool some = reader.any(fmt::format("kernel.{}.", kinds[i]));  // few operators have constants of their own
    const auto own = [&](std::string_view what) {
      return some ? reader.find(fmt::format("kernel.{}.{}", kinds[i], what)) : std::nullopt;
    };
    const auto constant = [&](std::string_view what) {
      const auto found = own(what);
      return found || !is_memory_class(kind) ? found : reader.find(fmt::format("kernel.{}.{}", to_string(kind), what));
    };
    const std::string_view chosen = kind == OperatorClass::cross_entropy ? software.loss : software.dispatcher;
    const auto variant = [&](std::string_view what) { return own(fmt::format("{}.{}", chosen, what)); };
    fusion_[i] = {constant("passes").value_or(Constant{-1, 1}), constant("launches")};
    fusion_[i].indexed = own("indexed").value_or(Constant{});
    if (const auto passes = variant("passes")) fusion_[i].passes = *passes;
    // Of fused experts one kernel sums the gradients of biases.
    if (software.fused_experts && static_cast<OperatorKind>(i) == OperatorKind::add_expert_bias_grad) fusion_[i] = {};
    fusion_[i].factor_passes = own("scaled.passes");
    fusion_[i].factor_launches = own("scaled.launches");
    fusion_[i].factor_indexed = own("scaled.indexed");
    const bool routes = kind == OperatorClass::router;
    if (const auto fused = own("fused.launches"); fused && (routes ? software.fused_router : software.fused_permute)) {
      fusion_[i].launches = fused;
    } else if (const auto stated = variant("launches")) {
      fusion_[i].launches = stated;
    } else {
      fusion_[i].sigmoid = own("sigmoid.launches");
      fusion_[i].grouped = own("group_limited.launches");
      fusion_[i].scaled = own("current.launches");
    }
  }
  experts_apart_ = !software.fused_experts && reader.value("kernel.experts_apart") > 0;
  fused_experts_ = software.fused_experts;
}

void KernelCost::read_memory_classes(ConstantReader& reader) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const auto value = static_cast<OperatorClass>(i);
    if (!is_memory_class(value)) continue;
    const auto constant = [&](std::string_view what) {
      return reader.require_either(fmt::format("memory.{}.{}", to_string(value), what),
                                   fmt::format("memory.default.{}", what));
    };
    memory_[i] = {constant("bandwidth"), constant("saturation_sms").value,
                  std::llround(constant("blocks_per_sm").value)};
  }
}

void KernelCost::read_scans(ConstantReader& reader) {
  // By RecurrenceKind.
  constexpr std::array<std::string_view, 4> recurrences = {"gated_delta", "channel_delta", "state_space",
                                                           "constant_decay"};
  for (std::size_t i = 0; i < recurrences.size(); ++i)
    for (const bool backward : {false, true}) {
      const std::string own = fmt::format("scan.{}.{}", recurrences[i], backward ? "backward" : "forward");
      scans_[i][backward ? 1 : 0] = {reader.require_either(own + ".gemm_share", "scan.gemm_share"),
                                     reader.find(own + ".chunk_time").value_or(Constant{})};
    }
  lane_time_ = reader.find("scan.lane_time").value_or(Constant{});
}

void KernelCost::read_free_shares(ConstantReader& reader, const Device& device) {
  const auto left_by = [&](std::string_view block) { return free_share(device.sm, read_block(reader, block)); };
  streaming_blocks_ = blocks_per_sm(device.sm, read_block(reader, "block.streaming"));
  free_share_[static_cast<std::size_t>(CoRunner::none)] = 1;
  free_share_[static_cast<std::size_t>(CoRunner::waiting)] = left_by("block.notify");
  free_share_[static_cast<std::size_t>(CoRunner::transferring)] = left_by("block.transfer");
  free_share_[static_cast<std::size_t>(CoRunner::collective)] = left_by("block.transfer");
  free_share_[static_cast<std::size_t>(CoRunner::computing)] = left_by("block.gemm");
}

}  // namespace plumbline::model
