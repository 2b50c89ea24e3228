#include "real/measure/stage_runner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "model/cost/operator_class.h"
#include "real/measure/sequence_buffers.h"
#include "real/measure/workload.h"

namespace plumbline::real {
namespace {

using model::Stream;

constexpr std::uint32_t unlabeled = std::numeric_limits<std::uint32_t>::max();
constexpr double enough = 0.9;          // fraction of a kernel's time that counts as overlapped
constexpr double longest_gap_s = 5e-6;  // between two launched kernels; after a longer gap the host launched too late
// The buffer sets of the operators, and of the all-to-all that overlaps them.
constexpr std::size_t own_set = 0, all_to_all_set = 1, sets = 2;
constexpr std::size_t passes_overlapped = 2;

// Returns the records of the stream, sorted by start.
std::vector<KernelRecord> of_stream(const std::vector<KernelRecord>& records, model::Stream stream) {
  std::vector<KernelRecord> found;
  std::ranges::copy_if(records, std::back_inserter(found),
                       [stream](const KernelRecord& record) { return record.stream == stream; });
  std::ranges::sort(found, {}, &KernelRecord::start);
  return found;
}

class StageRunner final : public Runner {
 public:
  StageRunner(const Sequence& sequence, Device& device, Communicator& communicator, const StageConditions& conditions)
      : sequence_(sequence),
        device_(device),
        communicator_(communicator),
        conditions_(conditions),
        buffers_(sequence, device, sets, Apart::all_to_all) {
    for (const Sequence::Step& step : sequence.steps) {
      const model::OperatorKind kind = sequence.op(step).kind;
      if (is_all_to_all(kind)) all_to_alls_.push_back(step);
      if (!has_stand_in(kind)) computed_.push_back(step);
    }
  }

  // Returns operators alone, operators overlapped with the all-to-all, the all-to-all alone, and overlapped with them.
  std::vector<Subject> subjects() const {
    std::vector<Subject> found;
    const auto add = [&](const std::vector<Sequence::Step>& steps, bool overlapped, bool holds) {
      for (const Sequence::Step& step : steps) {
        const std::string& name = sequence_.blocks[step.block].name;
        found.push_back(subject_of(sequence_.graph(step), sequence_.op(step), name, conditions_.sms));
        found.back().communication_sms = holds ? conditions_.communication_sms : 0;
        found.back().overlapped = overlapped;
      }
    };
    add(computed_, false, false);
    add(computed_, true, true);
    add(all_to_alls_, false, true);
    add(all_to_alls_, true, true);
    return found;
  }

  model::Result<std::vector<Sample>> round(std::size_t) override {
    samples_.clear();
    for (const auto part :
         {&StageRunner::begin, &StageRunner::operators_alone, &StageRunner::all_to_alls_alone, &StageRunner::both}) {
      (this->*part)();
      TRY(device_.synchronize());
      keep(part);
    }
    return std::move(samples_);
  }

 private:
  using Part = void (StageRunner::*)();

  // Runs everything once in the order of the step, because the dispatch decides how many tokens each expert has.
  void begin() {
    if (begun_) return;
    begun_ = true;
    for (std::size_t set = 0; set < sets; ++set) {
      for (const Sequence::Step& step : sequence_.steps) {
        const model::OperatorKind kind = sequence_.op(step).kind;
        if (!has_stand_in(kind)) device_.launch(Stream::compute, buffers_.kernel(set, step, unlabeled));
        if (!is_all_to_all(kind)) continue;
        device_.wait(Stream::communication, device_.record(Stream::compute));
        all_to_all(set, step, unlabeled);
        device_.wait(Stream::compute, device_.record(Stream::communication));
      }
    }
  }

  void operators_alone() {
    constexpr double most_passes = 100;
    const double passes = pass_s_ > 0 ? std::min(most_passes, std::ceil(conditions_.soak_s / pass_s_)) : 1;
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) compute(false);
    compute(true);
  }

  // The first, untimed pass warms up clocks and caches.
  void all_to_alls_alone() {
    for (const bool labeled : {false, true}) launch_all_to_alls(labeled);
  }

  // Launches the operators first, because the launch of a dispatch may wait for the previous one.
  void both() {
    if (all_to_alls_.empty()) return;
    for (std::size_t pass = 0; pass < passes_overlapped; ++pass) compute(true);
    const double computing = static_cast<double>(passes_overlapped) * pass_s_;
    const int times = all_to_all_s_ > 0 ? static_cast<int>(std::ceil(computing / all_to_all_s_)) : 1;
    for (int time = 0; time < times; ++time) launch_all_to_alls(true);
  }

  void compute(bool labeled) {
    for (std::uint32_t i = 0; i < computed_.size(); ++i)
      device_.launch(Stream::compute, buffers_.kernel(own_set, computed_[i], labeled ? i : unlabeled));
  }

  void launch_all_to_alls(bool labeled) {
    const auto first = static_cast<std::uint32_t>(computed_.size());
    for (std::uint32_t i = 0; i < all_to_alls_.size(); ++i)
      all_to_all(all_to_all_set, all_to_alls_[i], labeled ? first + i : unlabeled);
  }

  Group group_of(const Sequence::Step& step) const {
    const auto& attributes = std::get<model::DispatchAttributes>(sequence_.op(step).attributes);
    Group group;
    group.ranks.resize(static_cast<std::size_t>(attributes.experts / attributes.experts_per_rank));
    group.position = communicator_.rank() % group.size();
    std::iota(group.ranks.begin(), group.ranks.end(), communicator_.rank() - group.position);
    return group;
  }

  void all_to_all(std::size_t set, const Sequence::Step& step, std::uint32_t label) {
    communicator_.launch(Stream::communication, group_of(step), buffers_.kernel(set, step, label));
  }

  void keep(Part part) {
    const std::vector<KernelRecord> records = device_.take_records();
    if (part == &StageRunner::begin) return;
    const auto computing = of_stream(records, Stream::compute), moving = of_stream(records, Stream::communication);
    const bool overlapped = part == &StageRunner::both;
    const std::size_t operators = computed_.size();
    double before = -1;  // end of the previous operator; below 0: there is none, and no gap to include
    double pass = 0, all_to_alls = 0;
    for (const KernelRecord& record : computing) {
      const bool in_turn = before >= 0 && record.start - before <= longest_gap_s;
      const double start = in_turn ? before : record.start;
      const bool first = std::exchange(before, record.end) < 0;
      if (record.label == unlabeled || first) continue;
      pass += record.end - start;
      if (!overlapped || covered_share(start, record.end, moving) >= enough)
        samples_.push_back({record.label + (overlapped ? operators : 0), record.end - start, 0});
    }
    for (const KernelRecord& record : moving) {
      if (record.label == unlabeled) continue;
      const double seconds = record.end - record.start;
      all_to_alls += seconds;
      if (!overlapped || covered_share(record.start, record.end, computing) >= enough)
        samples_.push_back({operators + record.label + (overlapped ? all_to_alls_.size() : 0), seconds, 0});
    }
    if (part == &StageRunner::operators_alone) pass_s_ = pass;
    if (part == &StageRunner::all_to_alls_alone) all_to_all_s_ = all_to_alls;
  }

  const Sequence& sequence_;
  Device& device_;
  Communicator& communicator_;
  StageConditions conditions_;
  SequenceBuffers buffers_;
  std::vector<Sequence::Step> computed_, all_to_alls_;
  std::vector<Sample> samples_;
  bool begun_ = false;
  double pass_s_ = 0, all_to_all_s_ = 0;  // seconds of all operators and of all dispatches and combines, last round
};

}  // namespace

RunnableWorkload stage_workload(const Sequence& sequence, Device& device, Communicator& communicator,
                                const StageConditions& conditions) {
  auto runner = std::make_unique<StageRunner>(sequence, device, communicator, conditions);
  std::vector<Subject> subjects = runner->subjects();
  return {std::move(runner), std::move(subjects)};
}

double covered_share(double start, double end, const std::vector<KernelRecord>& records) {
  if (end <= start) return 0;
  double sum = 0;
  auto at = std::ranges::lower_bound(records, start, {}, &KernelRecord::end);
  for (; at != records.end() && at->start < end; ++at)
    sum += std::max(0.0, std::min(end, at->end) - std::max(start, at->start));
  return sum / (end - start);
}

}  // namespace plumbline::real
