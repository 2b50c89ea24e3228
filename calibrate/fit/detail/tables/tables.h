// Fits of the forms of kernels and transfers to component tables.
#pragma once

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/held_out.h"
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

// A number of a form that rows determine: the constant that it is, and where its fit starts.
template <class Constants>
struct FormNumber {
  const char* name;
  double Constants::*constant;
  const char* unit;
  double start;       // in SI; of one with a limit, the share of it
  double prior = 20;  // deviation in ln around the start, as of LogFitOptions
  double limit = 0;   // above 0: the constant is below() it
  double over = 0;    // above 0: the constant is this over the number
};

// The numbers of a form, and the constants that it names.
template <class Constants>
class FormNumbers {
 public:
  FormNumbers(std::vector<FormNumber<Constants>> numbers, const Constants& known)
      : numbers_(std::move(numbers)), known_(known) {}

  Eigen::VectorXd start() const { return vector_of(numbers_, &FormNumber<Constants>::start); }
  Eigen::VectorXd prior() const { return vector_of(numbers_, &FormNumber<Constants>::prior); }

  Constants constants(const Eigen::VectorXd& x) const {
    Constants constants = known_;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const FormNumber<Constants>& number = numbers_[i];
      const double found = x[static_cast<Eigen::Index>(i)];
      constants.*number.constant = number.limit > 0  ? below(number.limit, found)
                                   : number.over > 0 ? number.over / found
                                                     : found;
    }
    return constants;
  }

  std::vector<Fitted> fitted(const LogFit& fit) const {
    const Constants found = constants(fit.values);
    std::vector<Fitted> all;
    for (const FormNumber<Constants>& number : numbers_) {
      const auto at = static_cast<Eigen::Index>(all.size());
      all.push_back({number.name, found.*number.constant, number.unit,
                     fit.uncertainty[at] * (number.limit > 0 ? share_below(fit.values[at]) : 1)});
    }
    return all;
  }

  // Returns the correlations of the numbers that are not named.
  std::vector<std::vector<double>> correlation(const LogFit& fit,
                                               const std::set<std::string_view>& without = {}) const {
    std::vector<Eigen::Index> written;
    std::vector<double> signs;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (without.contains(numbers_[i].name)) continue;
      written.push_back(static_cast<Eigen::Index>(i));
      signs.push_back(numbers_[i].over > 0 ? -1 : 1);
    }
    return correlation_of(fit, written, signs);
  }

 private:
  std::vector<FormNumber<Constants>> numbers_;
  Constants known_;
};

// A row of a table as a form sees it.
template <class Work>
struct FormRow {
  std::string shape;  // decides whether the fit leaves the row out
  Work work;
  double seconds = 0;
  bool large = false;  // as large as training has it
};

// Returns whether a fit leaves out each of the rows.
template <class Work>
std::vector<bool> held_rows(const std::vector<FormRow<Work>>& rows) {
  return marked(rows, [](const FormRow<Work>& row) { return is_held_out(row.shape); });
}

// Returns the times of the rows by a form, `seconds(constants, work)`.
template <class Work, class Constants, class Seconds>
Eigen::VectorXd times_of(const std::vector<FormRow<Work>>& rows, const Constants& constants, const Seconds& seconds) {
  return vector_of(rows, [&](const FormRow<Work>& row) { return seconds(constants, row.work); });
}

// Returns the times of the rows by `seconds(work)`.
template <class Work, class Seconds>
Eigen::VectorXd times_of(const std::vector<FormRow<Work>>& rows, const Seconds& seconds) {
  return vector_of(rows, [&](const FormRow<Work>& row) { return seconds(row.work); });
}

// Adds the errors of the rows that `held` marks.
template <class Work>
void add_errors(const Eigen::VectorXd& predicted, const Eigen::VectorXd& roofline,
                const std::vector<FormRow<Work>>& rows, const std::vector<bool>& held, HeldOut& result) {
  add_errors(predicted, roofline, seconds_of(rows), held, marked(rows, std::mem_fn(&FormRow<Work>::large)), result);
}

// Fits the numbers of a form to the rows.
template <class Work, class Constants, class Seconds>
LogFit solve_numbers(const std::vector<FormRow<Work>>& rows, const FormNumbers<Constants>& numbers,
                     const Seconds& seconds, const LogFitOptions& options, const Eigen::VectorXd& start) {
  return log_fit([&](const Eigen::VectorXd& x) { return times_of(rows, numbers.constants(x), seconds); },
                 seconds_of(rows), start, options);
}

// What a fit finds.
template <class Constants>
struct TableFit {
  Constants constants;
  std::vector<Fitted> fitted;                    // the numbers, in their order
  std::vector<std::vector<double>> correlation;  // of their errors, as correlation_of() has it
  HeldOut held_out;                              // without its family and table
};

// Fits the numbers to the rows that `held` does not mark; `roofline(work)` is the time by a datasheet.
template <class Constants, class Work, class Seconds, class Roofline>
TableFit<Constants> fit_numbers(const std::vector<FormRow<Work>>& rows, const std::vector<bool>& held,
                                const FormNumbers<Constants>& numbers, const Seconds& seconds,
                                const Roofline& roofline) {
  const LogFit solution =
      solve_numbers(selected(rows, held, false), numbers, seconds, {.prior = numbers.prior()}, numbers.start());
  TableFit<Constants> fit{
      numbers.constants(solution.values), numbers.fitted(solution), numbers.correlation(solution), {}};
  add_errors(times_of(rows, fit.constants, seconds), times_of(rows, roofline), rows, held, fit.held_out);
  return fit;
}

// Fits GEMMs of one software and format to the form of model/cost/forms/kernel_forms.h. The times of quantized formats
// hold a kernel that quantizes the 16-bit activation; it has two constants of its own,
//   quantize = m k (2 + operand bytes) / quantize_bandwidth + k quantize_k_time,
// and belongs to the software that was measured, not to the GPU. Rows slower than 1.15 times the fit are dropped twice:
// what disturbs a measurement only ever lengthens it.
struct GemmTableConstants : model::GemmConstants {  // in SI; the ramp holds all launches of the software
  double rate = 0;                                  // FLOP/s of the whole GPU: 2 tile_m tile_n SMs / k_time
  double quantize_bandwidth = 0;                    // B/s; 0: the format is not quantized
  double quantize_k_time = 0;                       // s per element of the inner dimension
};

// Fitted are ramp, rate, what quantizes, and, unless the shape is given, wave_overhead, wave_share, memory_bandwidth,
// droop and droop_time; the correlation is that of the rate and the shape.
using GemmTableFit = TableFit<GemmTableConstants>;
inline constexpr std::ptrdiff_t gemm_shape_numbers = 5;  // at the end of the fitted ones

// Returns whether the fits leave the shape out: with i, j, l the places of m, n, k among the sizes of the table,
// (i + 2 j + 3 l) mod 5 = 0, one row in five, in which each size occurs. Where less than half of the grid of sizes was
// measured, (2 j + 3 l) mod 5 = 0: whole pairs of n and k.
std::vector<bool> held_out_gemms(const std::vector<GemmRow>& rows);

// Fits all constants; the tile is the one of five with the least loss. With a `shape`, the rate, the ramp and the
// quantizing kernel with the other constants of it: a table of few sizes of m does not determine those. Requires rows
// of one software and format. `quantizes`: whether the times of formats below 16 bits hold the quantizing kernel.
GemmTableFit fit_gemm_table(const std::vector<GemmRow>& rows, const FitMachine& machine, bool quantizes = true,
                            const GemmTableFit* shape = nullptr);

// Returns a GEMM of a table, and what the kernel that quantizes its activation takes; 0 where the constants have none.
model::GemmWork gemm_work(const GemmRow& row);
double quantize_seconds(const GemmTableConstants& constants, const model::GemmWork& work);
// Returns the time at the peak, or at the bandwidth of the memory.
double gemm_roofline(const model::GemmWork& work, double peak, double bandwidth);

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
  // start, bandwidth, rate, k_time (of groups tile_depth), and of experts row_time, with the deviations of the fit or
  // half the spread between softwares where that is larger, and the correlations of each with those before it.
  std::vector<Fitted> fitted;
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
struct ExpertConstants {
  double launch = 0, per_expert = 0;  // s
  double rate = 0;                    // FLOP/s of the whole GPU
  double weight_bandwidth = 0;        // B/s at which weights are read
  double activation_bandwidth = 0, entry_bandwidth = 0;
};

struct ExpertTableFit : TableFit<ExpertConstants> {
  std::size_t left_series = 0;  // series that a badly chosen kernel disturbs throughout
};

// Requires balanced rows among those of one software, kernel and format. `dense_rate`: FLOP/s of dense GEMMs.
ExpertTableFit fit_expert_table(const std::vector<ExpertRow>& rows, const FitMachine& machine, double dense_rate);

// Fits attention to the form of model/cost/forms/kernel_forms.h.

// Of causal attention forward: one set of constants for all head dimensions and softwares of a GPU, except for what
// belongs to a software, its launch and the bandwidth of keys and values. The measured calls of serving frameworks also
// write keys and values into a paged cache, so that bandwidth holds for serving alone.
//
// Fitted are rate, row_time, tail and pair_time, whose deviation is infinite where it is not fitted: then the
// correlation lacks it. The deviation of the rate is at least half the spread between softwares.
using AttentionTableFit = TableFit<model::AttentionConstants>;  // of the whole GPU, without a kv_bandwidth

// `pair_share`: pair_time over the time of a pair at head dimension 128, where the rows have one dimension only and
// do not determine both; nullopt: fitted. Requires rows.
AttentionTableFit fit_attention_table(const std::vector<AttentionRow>& rows, const FitMachine& machine,
                                      std::optional<double> pair_share = std::nullopt);

// Of one direction of one kernel of training. Its few rows have large grids, which do not determine how late the last
// blocks end, and in BF16 two head dimensions, which do not determine what a pair costs besides its GEMMs: those are
// known from elsewhere.
struct TrainingAttentionFit : TableFit<model::AttentionConstants> {  // fitted: rate, row_time and, in FP8, pair_time
  bool skips_window = true;  // whether time grows as the length in a window, and not as its square
  std::size_t rows = 0;      // fitted and held out
};

// Fits causal rows without deterministic sums. Rows of more than `longest` seconds are left out, because ten launches
// of them are held at the power limit. `known` has pair_time, from which that of FP8 is searched, tail and
// kv_bandwidth; measured times count `times` fold. Returns a rate of 0 where no row is left.
TrainingAttentionFit fit_training_attention(const std::vector<TrainingAttentionRow>& rows, const FitMachine& machine,
                                            const model::AttentionConstants& known, double times = 1,
                                            double longest = 0.05);

// Fits one recurrence and direction to the form of KernelCost::scan: its bytes, its products at a share of the rate of
// BF16 GEMMs, and what chunks of few blocks wait for each other.
struct ScanConstants {
  double bandwidth = 0;  // B/s of memory-bound kernels, known
  double rate = 0;       // FLOP/s of BF16 GEMMs, known
  double gemm_share = 0;
  double chunk_time = 0;  // known, where the rows do not determine it
};

// Requires rows of one recurrence and direction. Fitted are gemm_share and, where some rows leave more than half of the
// SMs idle, chunk_time.
TableFit<ScanConstants> fit_scan_table(const std::vector<ScanRow>& rows, const FitMachine& machine,
                                       const ScanConstants& known);

// Fits attention over a cache to the form of model/cost/forms/kernel_forms.h: one set of constants for all
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
  // All constants but least_rows; of start and bandwidth the deviation is at least half the spread between softwares.
  std::vector<Fitted> fitted;
  std::vector<HeldOut> held_out;  // of each software, with its own start and bandwidth
};

// What one call of a row reads and computes: every query meets every key of its request.
model::CachedAttentionWork cached_work(const CachedAttentionRow& row);

// Requires rows, all of a latent cache or none.
CachedAttentionTableFit fit_cached_attention_table(const std::vector<CachedAttentionRow>& rows,
                                                   const FitMachine& machine);

// Fits NCCL's collectives on one node: n GPUs, D bytes, bus factor f, q = n - 1, p = 2 for an all-reduce and else 1.
//   ring:   the least of base + p q t_step + D f / rate over LL, LL128 and Simple
//   direct: the same with a line of its own for each and q steps, for all-to-all
//   switch: base + 8/9 (1 + 1/n) D / rate, for an all-reduce of more than two GPUs; the rate is that of eight
// Simple moves a rank's own piece out of place: D / (n copy_bandwidth) more. These are the lines of
// model/cost/collective_cost.h with a launch of 0 and latency scales of 1.
struct CollectiveLine {
  std::vector<Fitted> numbers;                   // base, nvlink_hop, rate on the bus; in the switch without the second
  std::vector<std::vector<double>> correlation;  // of their errors; none of a line in the switch

  const Fitted& rate() const { return numbers.back(); }
};

// Returns the line of the three numbers from `at` on; `second` is the name of that number.
CollectiveLine line_of(const LogFit& fit, Eigen::Index at, const char* second);

struct CollectiveTableFit {
  // In order of base latency: LL, LL128, Simple. A line that is the fastest nowhere is not identified: nullopt.
  std::array<std::optional<CollectiveLine>, 3> ring, direct;
  Fitted copy_bandwidth;
  std::optional<CollectiveLine> in_switch;
  HeldOut held_out;
};

// Sizes that several versions measured enter as their median. Rows that are slower than twice their bytes, or far above
// both neighbors, are left out of the fit. `switch_sums`: whether the switch sums. Requires rows.
CollectiveTableFit fit_collective_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine,
                                        bool switch_sums);

// Fits DeepEP's normal kernels, one direction, to the form of model/cost/forms/transfer_forms.h: start, per-SM rates
// and times per row and token from the rows on one node and, where there are some, on several. NVLink never limits
// these kernels with the SMs that were measured, so its rate is given.
//
// Uses the rows of normal kernels and of `direction` ("dispatch" or "combine") on up to four nodes. `nvlink_rate`: B/s
// that collectives reach. Requires such rows.
TableFit<model::ExchangeConstants> fit_exchange_table(const std::vector<ExchangeRow>& rows,
                                                      const std::string& direction, const FitMachine& machine,
                                                      double nvlink_rate);

// Returns the expected number of distinct groups, of `groups` equal ones, that `top_k` of `experts` reach.
double distinct_groups(double groups, double experts, double top_k);

// Fits the expert all-to-all over NVLink between trays (GB200 NVL72) to the form of model/cost/forms/transfer_forms.h
// without SMs: start * ranks^exponent + node bytes / nvlink_rate + tokens * bytes / local_rate. Within a tray (up to
// four GPUs) the rates are others, and belong to no plan that spans trays. Uses the rows of one kernel, direction and
// format, of more than one token and beyond a tray. Requires such rows.
TableFit<model::ExchangeConstants> fit_tray_table(const std::vector<TrayExchangeRow>& rows, const std::string& kernel,
                                                  const std::string& direction, const std::string& format,
                                                  const FitMachine& machine);

}  // namespace plumbline::calibrate
