// Fits of the forms of kernels and transfers to component tables.
#pragma once

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/cached_attention_form.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/cost/forms/transfer_forms.h"

namespace plumbline::calibrate {

// Adds the errors of the rows that `held` marks; `large` marks those that are as large as training has them.
void add_errors(const Eigen::VectorXd& predicted, const Eigen::VectorXd& roofline, const Eigen::VectorXd& measured,
                const std::vector<bool>& held, const std::vector<bool>& large, HeldOut& result);

// Returns the rows for which the predicate holds.
template <class Row, class Predicate>
std::vector<bool> marked(const std::vector<Row>& rows, const Predicate& predicate) {
  std::vector<bool> marks;
  for (const Row& row : rows) marks.push_back(predicate(row));
  return marks;
}

// Returns the elements that are, or are not, marked.
Eigen::VectorXd selected(const Eigen::VectorXd& values, const std::vector<bool>& marks, bool wanted);

template <class Row>
std::vector<Row> selected(const std::vector<Row>& rows, const std::vector<bool>& marks, bool wanted) {
  std::vector<Row> found;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (marks[i] == wanted) found.push_back(rows[i]);
  return found;
}

// Fits GEMMs of one software and format to the form of model/cost/forms/kernel_forms.h. The times of quantized formats
// hold a kernel that quantizes the 16-bit activation; it has two constants of its own,
//   quantize = m k (2 + operand bytes) / quantize_bandwidth + k quantize_k_time,
// and belongs to the software that was measured, not to the GPU. Rows slower than 1.15 times the fit are dropped twice:
// what disturbs a measurement only ever lengthens it.
struct GemmTableFit {
  model::GemmConstants constants;  // in SI; the ramp holds all launches of the software
  double rate = 0;                 // FLOP/s of the whole GPU: 2 tile_m tile_n SMs / k_time
  double quantize_bandwidth = 0;   // B/s; 0: the format is not quantized
  double quantize_k_time = 0;      // s per element of the inner dimension
  // Relative standard deviations of the fit; infinite where the constants were given.
  double rate_deviation = 0, wave_overhead_deviation = 0, wave_share_deviation = 0, memory_deviation = 0,
         droop_deviation = 0, droop_time_deviation = 0, ramp_deviation = 0;
  // Of the errors of k_time, wave_overhead, wave_share, memory_bandwidth, droop and droop_time; none where the shape
  // was given.
  std::vector<std::vector<double>> correlation;
  HeldOut held_out;
};

// Returns whether the fits leave the shape out: with i, j, l the places of m, n, k among the sizes of the table,
// (i + 2 j + 3 l) mod 5 = 0, one row in five, in which each size occurs. Where less than half of the grid of sizes was
// measured, (2 j + 3 l) mod 5 = 0: whole pairs of n and k.
std::vector<bool> held_out_gemms(const std::vector<GemmRow>& rows);

// Fits all constants; the tile is the one of seven with the least loss. Requires rows of one software and format.
// `quantizes`: whether the times of formats below 16 bits hold the quantizing kernel.
GemmTableFit fit_gemm_table(const std::vector<GemmRow>& rows, const FitMachine& machine, bool quantizes = true);

// Fits the rate, the ramp and the quantizing kernel with the other constants of `shape`: a table of few sizes of m does
// not determine those.
GemmTableFit fit_gemm_rate(const std::vector<GemmRow>& rows, const FitMachine& machine, const GemmTableFit& shape,
                           bool quantizes = true);

// Returns the bytes of an operand's element with its scales. Formats: bf16, fp8, fp8_block, nvfp4, mxfp4.
double operand_bytes(const std::string& format);
// Returns the dense datasheet peak in FLOP/s; 0 where the device lacks the format.
double datasheet_peak(const model::Device& device, const std::string& format);

// Fits GEMMs of few rows, single and grouped ones and the experts of a layer, to small_gemm_core() of
// model/cost/forms/kernel_forms.h: t = launches + sum over the GEMMs, for experts + the bytes of the kernels next to
// them / kernel_bandwidth + bytes of the copies of all ranks / entry_bandwidth. All softwares of a format are fitted
// together; the constants are then moved to the geometric mean of the softwares' levels (the median of measured /
// fitted), and half the spread of these is an uncertainty.
struct SmallGemmFit {
  model::SmallGemmConstants constants;  // in SI; the start holds all launches of the software
  // Of start, bandwidth, rate, k_time (of groups tile_depth), and of experts row_time: relative standard deviations,
  // those of the fit or half the spread between softwares where that is larger, and the correlations of each with those
  // before it.
  std::vector<double> deviations;
  std::vector<std::vector<double>> correlation;
  std::vector<HeldOut> held_out;  // by software
  // |fitted / measured - 1| of rows of the fit with 64 and 128 rows, by software as in held_out.
  std::vector<std::vector<double>> fitted_errors;
  double most_rows = 0;  // of a group
};

// Require rows of one format. Of experts only balanced rows are used: rows of each expert of the others are not known.
// `kernel_bandwidth`: B/s of memory-bound kernels; `bandwidth`: that of the GEMMs, where the rows do not determine it.
SmallGemmFit fit_small_gemms(const std::vector<GemmRow>& rows, const FitMachine& machine);
SmallGemmFit fit_small_grouped_gemms(const std::vector<GroupedGemmRow>& rows, const FitMachine& machine);
SmallGemmFit fit_small_experts(const std::vector<ExpertRow>& rows, const FitMachine& machine, double kernel_bandwidth,
                               std::optional<double> bandwidth = std::nullopt);

// Fits the expert block of one software, kernel and format, forward: two grouped GEMMs with what serving does around
// them. With rows m of each expert, hidden H, intermediate F, weights of b bytes, R rows on the rank, T tokens, top k:
//   t = launch + sum over experts with rows of max(6 ceil(m / 128) 128 H F / rate, 3 H F b / weight_bandwidth)
//       + R (2 H + 3 F) 2 B / activation_bandwidth + T k H 2 B / entry_bandwidth + experts * per_expert
// The rate stays below that of dense GEMMs, of which a profile takes the ratio: alone, rate and activation_bandwidth
// stand in for each other. Only balanced rows are used, because the tables lack the rows of each expert of the others.
struct ExpertTableFit {
  double rate = 0, rate_deviation = 0;                          // FLOP/s of the whole GPU
  double weight_bandwidth = 0, weight_bandwidth_deviation = 0;  // B/s at which weights are read
  std::size_t left_series = 0;                                  // series that a badly chosen kernel disturbs throughout
  HeldOut held_out;
};

// Requires balanced rows among those of one software, kernel and format. `dense_rate`: FLOP/s of dense GEMMs.
ExpertTableFit fit_expert_table(const std::vector<ExpertRow>& rows, const FitMachine& machine, double dense_rate);

// Fits attention to the form of model/cost/forms/kernel_forms.h.

// Of causal attention forward: one set of constants for all head dimensions and softwares of a GPU, except for what
// belongs to a software, its launch and the bandwidth of keys and values. The measured calls of serving frameworks also
// write keys and values into a paged cache, so that bandwidth holds for serving alone.
struct AttentionTableFit {
  model::AttentionConstants constants;  // of the whole GPU, without a kv_bandwidth
  // Relative: of the rate the larger of the fit's deviation and half the spread between softwares.
  double rate_deviation = 0, pair_deviation = 0, row_deviation = 0, tail_deviation = 0;
  std::vector<std::vector<double>>
      correlation;  // of the errors of the rate, row_time, tail and, where it is fitted, pair_time
  HeldOut held_out;
};

// `pair_share`: pair_time over the time of a pair at head dimension 128, where the rows have one dimension only and
// do not determine both; nullopt: fitted. Requires rows.
AttentionTableFit fit_attention_table(const std::vector<AttentionRow>& rows, const FitMachine& machine,
                                      std::optional<double> pair_share = std::nullopt);

// Of one direction of one kernel of training. Its few rows have large grids, which do not determine how late the last
// blocks end, and in BF16 two head dimensions, which do not determine what a pair costs besides its GEMMs: those are
// known from elsewhere.
struct TrainingAttentionFit {
  double rate = 0, row_time = 0, pair_time = 0;                      // FLOP/s and s, as of AttentionConstants
  double rate_deviation = 0, row_deviation = 0, pair_deviation = 0;  // relative
  bool skips_window = true;  // whether time grows as the length in a window, and not as its square
  std::vector<std::vector<double>> correlation = {};  // of the errors of rate, row_time and, in FP8, pair_time
  std::size_t rows = 0;                               // fitted and held out
  HeldOut held_out;
};

// Fits causal rows without deterministic sums. Rows of more than `longest` seconds are left out, because ten launches
// of them are held at the power limit. `known` has pair_time, from which that of FP8 is searched, tail and
// kv_bandwidth; measured times count `times` fold. Returns a rate of 0 where no row is left.
TrainingAttentionFit fit_training_attention(const std::vector<TrainingAttentionRow>& rows, const FitMachine& machine,
                                            const model::AttentionConstants& known, double times = 1,
                                            double longest = 0.05);

// Fits attention over a cache to the form of model/cost/forms/cached_attention_form.h: one set of constants for all
// shapes of one format of the cache, except for what belongs to a software: its start and its bandwidth.

// Query rows that a block of the kernels over a latent cache computes at least: the rows of Hopper's tensor-core
// instructions (wgmma), which FlashMLA and FlashAttention-3 fill with heads.
inline constexpr double latent_rows = 64;

struct CachedAttentionSoftware {
  std::string name;
  double start = 0, bandwidth = 0;
};

struct CachedAttentionTableFit {
  model::CachedAttentionConstants constants;  // start and bandwidth are the geometric means over the softwares
  std::vector<CachedAttentionSoftware> softwares;
  // Relative; of start and bandwidth the larger of the fit's deviation and half the spread between softwares.
  double start_deviation = 0, bandwidth_deviation = 0, request_deviation = 0, rate_deviation = 0, ramp_deviation = 0,
         ramp_time_deviation = 0, merge_deviation = 0;
  std::vector<HeldOut> held_out;  // of each software, with its own start and bandwidth
};

// Requires rows, all of a latent cache or none.
CachedAttentionTableFit fit_cached_attention_table(const std::vector<CachedAttentionRow>& rows,
                                                   const FitMachine& machine);

// Fits NCCL's collectives on one node: n GPUs, D bytes, bus factor f, q = n - 1, p = 2 for an all-reduce and else 1.
//   ring:   the least of base + p q t_step + D f / rate over LL, LL128 and Simple
//   direct: the same with a line of its own for each and q steps, for all-to-all
//   switch: base + 8/9 (1 + 1/n) D / rate, for an all-reduce of more than two GPUs; the rate is that of eight
// Simple moves a rank's own piece out of place: D / (n copy_bandwidth) more. These are the lines of
// model/cost/collective_cost.h with a launch of 0 and latency scales of 1.
struct FittedNumber {
  double value = 0;      // in SI
  double deviation = 0;  // relative standard deviation
};

struct CollectiveLine {
  FittedNumber base, hop, rate;                  // s, s, B/s on the bus
  std::vector<std::vector<double>> correlation;  // of their errors; none of a line in the switch
};

struct CollectiveTableFit {
  // In order of base latency: LL, LL128, Simple. A line that is the fastest nowhere is not identified: nullopt.
  std::array<std::optional<CollectiveLine>, 3> ring, direct;
  FittedNumber copy_bandwidth;
  std::optional<CollectiveLine> in_switch;  // without a time per step
  HeldOut held_out;
};

// Sizes that several versions measured enter as their median. Rows that are slower than twice their bytes, or far above
// both neighbors, are left out of the fit. `switch_sums`: whether the switch sums. Requires rows.
CollectiveTableFit fit_collective_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine,
                                        bool switch_sums);

// Fits DeepEP's normal kernels, one direction, to the form of model/cost/forms/transfer_forms.h: start, per-SM rates
// and times per row and token from the rows on one node and on several together. NVLink never limits these kernels with
// the SMs that were measured, so its rate is given.
struct ExchangeTableFit {
  model::ExchangeConstants constants;  // without several nodes: no node_rate, forward_rate, nic_rate, start_exponent
  bool several_nodes = false;
  // Relative standard deviations.
  double start = 0, start_exponent = 0, node_rate = 0, rank_rate = 0, forward_rate = 0, row_time = 0, token_time = 0,
         nic_rate = 0;
  // Of the errors of start, rank_rate, row_time, token_time and, on several nodes, start_exponent, node_rate,
  // forward_rate and nic_rate.
  std::vector<std::vector<double>> correlation;
  HeldOut held_out;
};

// Uses the rows of normal kernels and of `direction` ("dispatch" or "combine") on up to four nodes. `nvlink_rate`: B/s
// that collectives reach. Requires such rows.
ExchangeTableFit fit_exchange_table(const std::vector<ExchangeRow>& rows, const std::string& direction,
                                    const FitMachine& machine, double nvlink_rate);

// Returns the expected number of distinct groups, of `groups` equal ones, that `top_k` of `experts` reach.
double distinct_groups(double groups, double experts, double top_k);

// Fits the expert all-to-all over NVLink between trays (GB200 NVL72) to the form of model/cost/forms/transfer_forms.h
// without SMs: start * ranks^exponent + node bytes / nvlink_rate + tokens * bytes / local_rate. Within a tray (up to
// four GPUs) the rates are others, and belong to no plan that spans trays.
struct TrayTableFit {
  model::ExchangeConstants constants;  // start, start_exponent, nvlink_rate, local_rate
  double start = 0, start_exponent = 0, nvlink_rate = 0, local_rate = 0;  // relative standard deviations
  HeldOut held_out;
};

// Uses the rows of one kernel, direction and format, of more than one token and beyond a tray. Requires such rows.
TrayTableFit fit_tray_table(const std::vector<TrayExchangeRow>& rows, const std::string& kernel,
                            const std::string& direction, const std::string& format, const FitMachine& machine);

}  // namespace plumbline::calibrate
