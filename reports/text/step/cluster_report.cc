#include <fmt/format.h>

#include <algorithm>

#include "reports/text/format.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "sim/cluster/cluster_step.h"

namespace plumbline::reports {

namespace {

// Returns "Mean of 8 drawn fleets of 2,048 GPUs; eight of ten steps take 19.41 to 19.63 s, 19.02 s on GPUs that are all
// alike." and how long the GPUs compute and wait.
std::string cluster_sentence(const model::ClusterSpread& cluster) {
  return fmt::format(
      "{} of {} GPUs, {}; eight of ten steps take {}, and one on GPUs that are all alike {}. Eight of ten GPUs compute "
      "for {} and wait for others for {}.",
      cluster.seeds == 1 ? "One drawn fleet" : fmt::format("Mean of {} drawn fleets", cluster.seeds),
      grouped(cluster.gpus), cluster.by_kernels ? "kernel by kernel" : "slot by slot", seconds_span(cluster.step_s),
      duration(cluster.even_step_s), seconds_span(cluster.compute_s), seconds_span(cluster.wait_s));
}

}  // namespace

std::string cluster_section(const model::StepResult& result, const std::vector<Comparison>& comparisons) {
  const model::ClusterSpread& cluster = *result.cluster;
  std::string out = paragraph(cluster_sentence(cluster)) + '\n';
  Table table("cause | >of the bubble | >of the step");
  double bubble = 0;
  for (const model::BubblePart& part : cluster.bubble) {
    table.add({part.cause, fixed(part.seconds, 3) + " s", fixed(part.step_s, 3) + " s"});
    bubble += part.seconds;
  }
  table.add_rule();
  const std::string of =
      cluster.seeds > sim::most_taken_apart ? fmt::format(", first {} fleets", sim::most_taken_apart) : "";
  table.add({"bubble of rank 0" + of, fixed(bubble, 3) + " s"});
  const auto published = std::ranges::find(comparisons, "bubble", &Comparison::name);
  if (published != comparisons.end()) table.add({"published", fixed(published->published, 3) + " s"});
  out += table.to_string();
  if (cluster.rank_wait_s.size() > 1) {
    const auto [least, most] = std::ranges::minmax_element(cluster.rank_wait_s);
    out += paragraph(fmt::format("GPUs of pipeline rank {} wait least ({}), those of rank {} most ({}).",
                                 least - cluster.rank_wait_s.begin(), duration(*least),
                                 most - cluster.rank_wait_s.begin(), duration(*most)));
  }
  if (!cluster.priors.empty()) out += paragraph("Drawn:");
  for (const std::string& prior : cluster.priors) out += paragraph("- " + prior);
  return out;
}

}  // namespace plumbline::reports
