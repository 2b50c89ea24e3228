// KernelCost predicts how long an operator's kernels take on one GPU, from the constants of a profile. Each class of
// operators has one cost function, which every fidelity uses. Formulas and their derivations: docs/costs.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cost/constants.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/cost/measured_operators.h"
#include "model/cost/operator_class.h"
#include "model/cost/sm_partition.h"
#include "model/cost/work.h"
#include "model/graph/graph.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

struct KernelTime {
  double seconds = 0;            // under the given conditions, launch gaps included
  double gaps = 0;               // launch gaps in `seconds`; those that a router's constant contains are none
  std::array<Share, 10> shares;  // the constants that `seconds` depends on; they add up to it
  double passes = 1;             // the bytes moved over those of bytes_moved()
};

struct Plan;

// What a plan states of the kernels that its software launches (docs/stacks.md).
struct SoftwareKernels {
  std::string dispatcher;
  bool fused_router = false, fused_permute = false, fused_experts = false;
  std::string loss;
};
// Reads stack.dispatcher, stack.fused and loss.kernel of a plan that was checked.
SoftwareKernels software_kernels(const Plan& plan);

class KernelCost {
 public:
  // Fails with an input error that names the constant when the profile lacks one.
  static Result<KernelCost> make(const Profile& profile, const Device& device, const SoftwareKernels& software = {});

  // Returns the time of any operator that runs on one GPU (not all-to-alls or collectives). An operator that the
  // profile has measured on as many SMs takes that time plus one launch gap; during a transfer, the time measured so.
  // Conditions that were not measured (rows, slowdowns) scale it by the same factor as the formula.
  // Times of formulas are multiplied by the factors of their shapes, but for launch gaps.
  KernelTime time(const Graph& graph, const Operator& op, const Conditions& conditions) const;

  // Returns the seconds of an element-wise kernel that moves so many bytes and belongs to no operator of a graph.
  double moving(Bytes bytes, const Conditions& conditions) const;

  // Takes factors on the times of single shapes, or none; they must outlive the object. Bounds do not use them.
  void use(const ShapeFactors* factors) { factors_ = factors; }

  // Makes all times of operators longer by a factor, measured ones and launch gaps as well. Bounds stay.
  void slow_down(double factor) { slowdown_ = factor; }
  double slowdown() const { return slowdown_; }

  // Returns whether the profile has what GEMMs of that format cost. FP8 per tensor and MXFP8 take the constants of
  // block-scaled FP8 where they have none; formats of four bits are known by their own constants only.
  bool has_gemm(Precision precision) const;
  bool has_attention(Precision precision) const;  // of fp8_tensor and mxfp8

  // Returns a lower bound of the seconds: the operator's work at the highest rate of its class for any shape and
  // conditions, without launch gaps. GEMMs run at gemm.<kind>.k_time on every SM, without ramps, waves, partial tiles,
  // operands and results, of a pass of inference at their rate for few rows where that is higher; attention at what its
  // pairs take on every SM, without rows, tail and the reading of keys; attention over caches reads and computes
  // without anything else. Memory-bound kernels run at their class's bandwidth, without fixed parts; a router takes its
  // constants. A measured operator that was faster is its own bound (a GEMM's time is scaled to all SMs). For all
  // conditions with a clock of at most 1
  //   time(graph, op, conditions).seconds >= best(graph, op), and for GEMMs
  //   time(graph, op, conditions).seconds * conditions.sms >= best(graph, op) * SMs of the device,
  // at the same rows, because the slowdowns of a profile are at least 1.
  double best(const Graph& graph, const Operator& op) const;

  // Returns the number of launches of one operator where each is as fused as it can be: weight gradients of e experts
  // are e kernels, or one of fused experts, and each chunk of tokens has its GEMM.
  int kernels(const Graph& graph, const Operator& op) const;
  // Returns kernel.<operator>.launches where the profile states it, else kernels(). Software whose experts are launched
  // one by one (kernel.experts_apart) launches the GEMMs of experts, the casts of their rows and the sums with their
  // biases once for each. Kernels that swizzle scales before a GEMM are launched with it.
  double launches(const Graph& graph, const Operator& op) const;

 private:
  struct SmallGemmKind {
    SmallGemmConstants form;  // of the constants below and those without seconds of their own
    Constant start, bandwidth, k_time, rate, row_time;
    double most_rows = small_gemm_rows;  // of a group, up to which the form holds
  };
  struct GemmKind {      // GEMMs of one format, of weight gradients or not
    GemmConstants form;  // of the constants below and those without seconds of their own
    Constant ramp, wave_overhead, k_time, memory_bandwidth, droop;
    Constant operand_time;        // per element of operands whose layout is changed first
    double grouped_slowdown = 1;  // of a kernel that runs the GEMMs of several experts
    SmallGemmKind small, grouped_small;
    std::optional<SmallGemmKind> indexed_small;  // of experts that read tokens through an index
  };
  struct AttentionKind {
    AttentionConstants form;  // on the SMs that the rate is stated for
    Constant rate, pair_time, row_time, tail, kv_bandwidth;
    bool skips_window = true;  // whether it computes only what a window shows
  };
  struct CachedAttentionKind {  // attention over caches of one format, latent or grouped-query
    CachedAttentionConstants form;
    Constant start, bandwidth, rate, request_time, ramp, merge_time;
  };
  struct Fusion {  // what the kernels of an operator do more than one fused kernel
    Constant passes{-1, 1};
    std::optional<Constant> launches;
    // Of routers that score by a sigmoid, of those that choose among groups of experts, and of casts that find a scale.
    std::optional<Constant> sigmoid, grouped, scaled;
    Constant indexed;  // elements that kernels of its own index one by one, for each element of its first operand
    // Of rotations whose sine and cosine have a factor.
    std::optional<Constant> factor_passes, factor_launches, factor_indexed;
  };
  struct Memory {
    Constant bandwidth;              // on the whole GPU
    double saturation_sms = 0;       // fewer SMs reach a proportional part of it
    std::int64_t blocks_per_sm = 0;  // blocks per SM of a grid sized for the whole GPU; 0: many small blocks
  };

  // GEMM formats with constants of their own; the others run as one of these.
  enum class GemmFormat : std::uint8_t { bf16, fp32, fp8, fp8_tensor, mxfp8, nvfp4, mxfp4 };
  static GemmFormat gemm_format(DataType operand);

  KernelTime usual(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime by_form(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  double form_at_best(const Graph& graph, const Operator& op) const;
  std::optional<KernelTime> as_measured(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  double gemm_at_best(const Graph& graph, const Operator& op, const GemmShape& shape) const;
  double attention_at_best(const Graph& graph, const Operator& op) const;
  KernelTime gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime tiled_gemm(const Graph& graph, const Operator& op, const Conditions& conditions,
                        const GemmShape& shape) const;
  // Returns the kernel for few rows: of experts that of the engine, which has another one where a dispatch brings rows.
  const SmallGemmKind& small_kind(const Graph& graph, const Operator& op) const;
  KernelTime small_gemm(const Graph& graph, const Operator& op, const Conditions& conditions,
                        const GemmShape& shape) const;
  KernelTime inference_gemm(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime attention(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime cached_attention(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  double cached_attention_at_best(const Graph& graph, const Operator& op) const;
  Constant unaligned(const Graph& graph, const Operator& op) const;
  double accumulation(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime memory_bound(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime scan(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  KernelTime router(const Graph& graph, const Operator& op, const Conditions& conditions) const;
  // Returns how often the kernels of an operator on experts' rows are launched.
  double launched_apart(const Graph& graph, const Operator& op) const;
  bool is_grouped(const Operator& op) const;
  // Returns the kernels that swizzle the scales of a GEMM's operands, whose blocks of 16 or 32 elements tensor cores
  // read in another order than casts write: one an operand, also where it is the operands of many experts, or one for
  // each of those (gemm.experts_swizzled_apart).
  double scale_swizzles(const Graph& graph, const Operator& op) const;
  // Returns the elements of the rows that a kernel pads for quantized experts after they were gathered, or before they
  // are summed (their gradients, where they were padded); 0 where none does.
  double padded_elements(const Graph& graph, const Operator& op) const;
  // Returns what a kernel takes longer because it looks for each token's rows among those of all experts of the rank:
  // beyond `copying`, the seconds in which it copies rows meanwhile; of sums once, and for every block of columns.
  std::array<Share, 3> search(const Graph& graph, const Operator& op, double row_scale, double copying) const;
  SmOccupancy occupancy(const Conditions& conditions) const;
  double streaming(const Memory& memory, Bytes bytes, const SmOccupancy& occupancy) const;
  // Returns the elements that kernels of the operator index one by one, since operands are strided or broadcast.
  double indexed_elements(const Graph& graph, const Operator& op, double row_scale) const;
  // Returns the seconds of such kernels, which their integer instructions bound and not the memory.
  double indexing(double elements, const Conditions& conditions) const;
  double shape_factor(const Graph& graph, const Operator& op) const;
  KernelTime scaled(KernelTime time, double factor) const;
  KernelTime with_gaps(KernelTime time, double kernels) const;
  const GemmKind& gemm_kind(const Graph& graph, const Operator& op) const;
  void read_gemms(ConstantReader& reader);
  GemmKind read_gemm(ConstantReader& reader, std::string_view name, const GemmKind* forward) const;
  void read_small_gemms(ConstantReader& reader, std::string_view name, GemmKind& kind) const;
  void read_attention(ConstantReader& reader);
  AttentionKind read_attention(ConstantReader& reader, const std::string& kernel, std::string_view direction) const;
  const AttentionKind& attention_kind(const Graph& graph, const Operator& op, bool backward) const;
  // Returns the work of an attention as its kernel does it, and the constants of that kernel.
  std::pair<AttentionWork, const AttentionKind*> attention_at_work(const Graph& graph, const Operator& op) const;
  const CachedAttentionKind& cached_attention_kind(const Graph& graph, const Operator& op) const;
  void read_cached_attention(ConstantReader& reader);
  void read_fusion(ConstantReader& reader, const SoftwareKernels& software);
  const Constant& passes_of(const Operator& op) const;
  const std::optional<Constant>& stated_launches(const Operator& op) const;
  const Fusion& fusion(const Operator& op) const { return fusion_[static_cast<std::size_t>(op.kind)]; }
  void read_memory_classes(ConstantReader& reader);
  void read_scans(ConstantReader& reader);
  void read_free_shares(ConstantReader& reader, const Device& device);

  std::array<std::array<GemmKind, 2>, 7> gemms_;  // by GemmFormat and whether it is a weight gradient
  // By AttentionKernel up to triton; forward, backward.
  std::array<std::array<AttentionKind, 2>, 7> attention_;               // by AttentionKernel; then in FP8 and in MXFP8
  std::array<std::array<CachedAttentionKind, 2>, 2> cached_attention_;  // grouped, latent; 16 bits, fewer
  double attention_sms_ = 0;  // SMs that the rates of attention are stated for
  Constant gemm_output_bandwidth_, accumulation_bytes_;
  std::array<Constant, 3> unaligned_;  // factors of rows aligned to 8, 4 and 2 bytes
  bool pads_vocabulary_ = false;       // so that rows of logits are aligned
  std::vector<Fusion> fusion_;         // by OperatorKind
  bool experts_apart_ = false;         // whether experts are launched one by one
  bool indexed_experts_ = false;       // whether an engine has experts that read tokens through an index
  bool fused_experts_ = false;         // whether one kernel has the GEMMs of all experts and what surrounds them
  bool swizzles_apart_ = false;        // whether the scales of experts are swizzled one expert after another
  double weight_swizzles_ = 0, activation_swizzles_ = 0;
  std::int64_t device_sms_ = 0;
  double tf32_slowdown_ = 1;  // BF16 over TF32 peak of the datasheet; TF32 has no waves of its own
  double gemm_slowdown_ = 1, attention_slowdown_ = 1, sustained_clock_ = 1, latency_share_ = 1;
  std::array<double, 5> free_share_{};  // free share of an SM with each CoRunner
  std::int64_t streaming_blocks_ = 1;   // blocks on an SM of kernels with many small blocks
  std::array<Memory, 32> memory_;       // by OperatorClass
  Constant launch_gap_, shortest_kernel_, index_time_, scale_layout_, router_forward_, router_backward_, map_time_;
  struct Scan {
    Constant gemm_share, chunk_time;
  };
  std::array<std::array<Scan, 2>, 4> scans_;                          // by RecurrenceKind, forward and backward
  Constant lane_time_;                                                // of selective scans
  Constant padding_, search_start_, search_time_, copy_search_time_;  // of the dispatcher
  Constant router_forward_pair_, router_backward_pair_, router_gradient_bytes_;
  MeasuredOperators measured_;
  const ShapeFactors* factors_ = nullptr;
  double slowdown_ = 1;
};

}  // namespace plumbline::model
