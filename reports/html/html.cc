#include "reports/html/html.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "reports/html/detail/html_charts.h"
#include "reports/html/detail/html_page.h"
#include "reports/html/detail/pipeline_svg.h"
#include "reports/text/format.h"
#include "reports/text/step/cluster_report.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/interval_report.h"
#include "reports/text/step/run_report.h"

namespace plumbline::reports {
namespace {

std::string lead_sentences(const model::StepResult& result, const model::Plan& plan) {
  const double tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  std::string text =
      fmt::format("One training step on {} takes <b>{}</b> and learns from {} tokens.",
                  escape_html(hardware(plan, result.device)), duration(result.step.time_s), scaled(tokens));
  if (result.run) {
    text += fmt::format(" Training on {} tokens takes <b>{} days</b> and {} GPU-hours", scaled(result.run->tokens),
                        fixed(result.run->days, 1), scaled(result.run->gpu_hours));
    text += result.run->cost_usd ? fmt::format(", which cost <b>${}</b>.", scaled(*result.run->cost_usd)) : ".";
  }
  if (result.memory.ranks.empty()) return text;
  text += fmt::format(" The fullest GPU needs {} GB of its {} GB: ", gigabytes(result.memory.peak_bytes),
                      gigabytes(result.memory.capacity_bytes));
  return text + (result.memory.fits ? "the plan fits." : "<span class=\"warning\">the plan does not fit.</span>");
}

std::string cards(const model::StepResult& result) {
  std::string out = "<div class=\"cards\">\n";
  const auto card = [&out](std::string_view name, const std::string& value, const std::string& note) {
    out += fmt::format("<div>{}<b>{}</b><small>{}</small></div>\n", name, value, note);
  };
  const model::StepTimes& step = result.step;
  const model::PredictionInterval* interval = result.interval ? &*result.interval : nullptr;
  if (interval != nullptr)
    card("Step time", duration(interval->time_s.p50),
         fmt::format("{} in eight of ten cases; {} from components", seconds_span(interval->time_s),
                     duration(step.time_s)));
  else
    card("Step time", duration(step.time_s),
         result.bound_s ? fmt::format("cannot be below {}", duration(*result.bound_s)) : "");
  card("Tokens per second", scaled(step.tokens_per_s), fmt::format("{} per GPU", grouped(step.tokens_per_s_per_gpu)));
  card("GPU use (MFU)", percent(step.mfu), fmt::format("{} with causal attention", percent(step.mfu_causal)));
  if (result.run) {
    const auto phases = [&](const std::optional<model::Quantiles>& quantiles) {
      return quantiles ? fmt::format("all phases together; the predicted one {} in eight of ten cases",
                                     from_to(scaled(quantiles->p10), scaled(quantiles->p90)))
                       : std::string("all phases together");
    };
    card("GPU-hours", scaled(result.run->total_gpu_hours), phases(interval ? interval->gpu_hours : std::nullopt));
    if (const auto cost = result.run->total_cost_usd)
      card("Cost", fmt::format("${}", scaled(*cost)), phases(interval ? interval->cost_usd : std::nullopt));
  }
  if (!result.memory.ranks.empty()) {
    card("Memory", fmt::format("{} GB", gigabytes(result.memory.peak_bytes)),
         interval != nullptr ? fmt::format("of {} GB on the fullest GPU; fits in {} of all cases",
                                           gigabytes(result.memory.capacity_bytes), percent(interval->fits_probability))
                             : fmt::format("of {} GB on the fullest GPU", gigabytes(result.memory.capacity_bytes)));
  }
  return out + "</div>\n";
}

std::string interval_section(const model::StepResult& result) {
  const std::string left = escape_html(left_sentence(*result.interval));
  return html_section("How sure is this?",
                      fmt::format("As clusters run it a step takes {} in eight of ten cases. {}",
                                  seconds_span(result.interval->time_s), left),
                      interval_bar(result) + part_bars(*result.interval));
}

std::string cluster_html(const model::StepResult& result) {
  std::string body = wait_bars(*result.cluster);
  body +=
      "<table>\n<tr><th>Cause</th><th class=\"number\">Of the bubble</th><th class=\"number\">Of the step</th></tr>\n";
  for (const model::BubblePart& part : result.cluster->bubble)
    body += fmt::format("<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
                        escape_html(part.cause), duration(part.seconds), duration(part.step_s));
  body += "</table>\n<ul>\n";
  for (const std::string& prior : result.cluster->priors) body += fmt::format("<li>{}</li>\n", escape_html(prior));
  return html_section("Every GPU of the cluster", escape_html(cluster_sentence(*result.cluster)), body + "</ul>\n");
}

std::string comparison_section(const std::vector<Comparison>& comparisons) {
  std::string body =
      "<table>\n<tr><th>Quantity</th><th class=\"number\">Predicted</th><th class=\"number\">Published</th>"
      "<th>Unit</th><th class=\"number\">Error</th><th>Source</th></tr>\n";
  for (const Comparison& row : comparisons) {
    body += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td>"
        "<td class=\"number\">{}</td><td>{}</td></tr>\n",
        escape_html(row.name), number(row.predicted), number(row.published), escape_html(row.unit),
        row.published != 0 ? signed_percent(row.error()) : "", escape_html(row.source));
  }
  return html_section("How close is this to reality?", "Predicted values next to those that were published.",
                      body + "</table>\n");
}

std::string pipeline_section(const std::string& picture) {
  std::string legend = "<p class=\"legend\">";
  for (const model::OpType type :
       {model::OpType::F, model::OpType::B, model::OpType::I, model::OpType::W, model::OpType::FB}) {
    const std::string css_class = fmt::format("slot-{}", model::to_string(type));
    if (picture.find(fmt::format("\"{}\"", css_class)) == std::string::npos) continue;
    legend += legend_item(css_class, fmt::format("{} {}", model::to_string(type), describe(type)));
  }
  if (picture.find("\"slot-other\"") != std::string::npos) legend += legend_item("slot-other", "optimizer and other");
  legend += legend_item("idle", "idle") + "</p>\n";
  return html_section(
      "The pipeline",
      "The model's layers are split over pipeline ranks, one row each. Coloured is work, grey is waiting. "
      "Point at a slot to see what it is.",
      picture + legend);
}

std::string time_sections(const model::StepTimes& step) {
  std::string body = slot_bar(step);
  if (step.exposed_communication_s) {
    body += fmt::format("<p>Inside the slots, computing waits {} for communication.</p>\n",
                        duration(*step.exposed_communication_s));
  }
  std::string out = html_section("Where the time goes", "One step as the first pipeline rank spends it.", body);
  if (!step.breakdown.empty()) {
    out += html_section("By class of operator", "The same step by the kind of work.", breakdown_bars(step));
  }
  return out;
}

std::string lost_section(const model::StepResult& result) {
  std::string body =
      "<table>\n<tr><th>Cause</th><th class=\"number\">Time</th><th class=\"number\">Share of the step</th>"
      "<th>What would remove it</th></tr>\n";
  for (const model::LostTime& part : result.lost) {
    body += fmt::format("<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
                        escape_html(part.cause), duration(part.seconds), percent(part.seconds / result.step.time_s),
                        escape_html(part.remedy));
  }
  return html_section(
      "What the step loses against its bound",
      fmt::format("No step of this plan takes less than {}, which is {} of pipeline rank {} at the best rates "
                  "of the profile. What that rank loses:",
                  duration(*result.bound_s), escape_html(result.bound_by), result.bound_rank),
      body + "</table>\n");
}

std::string run_section(const model::RunCost& run) {
  return html_section(
      "The whole run",
      fmt::format("{} steps. Predicted phases are computed here, others are stated.", grouped(run.steps)),
      run_html(run));
}

std::string provenance_section(const std::vector<model::ProvenanceEntry>& provenance) {
  std::string lead = "Every constant behind the step time, and how much of the step rests on it. By kind:";
  std::string separator = " ";
  for (const EvidenceShare& share : evidence_shares(provenance)) {
    lead += fmt::format("{}{} {}", separator, model::to_string(share.kind), percent(share.share));
    separator = ", ";
  }
  std::string body =
      "<table>\n<tr><th>Parameter</th><th class=\"number\">Value</th><th>Unit</th><th>Kind</th><th>Source</th>"
      "<th class=\"number\">Share</th></tr>\n";
  for (const model::ProvenanceEntry& entry : provenance) {
    const model::Parameter& parameter = entry.parameter;
    const bool unproven = parameter.kind == model::Evidence::assumed || parameter.kind == model::Evidence::datasheet;
    body += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{:.5g}</td><td>{}</td><td><span class=\"kind{}\">{}</span></td>"
        "<td>{}</td><td class=\"number\">{}</td></tr>\n",
        escape_html(parameter.name), parameter.value, escape_html(parameter.unit), unproven ? " unproven" : "",
        model::to_string(parameter.kind), escape_html(parameter.source), percent(entry.share_of_step));
  }
  return html_section("What the prediction rests on", lead + ".", body + "</table>\n");
}

}  // namespace

std::string to_html(const model::StepResult& result, const model::Plan& plan, const model::Timeline& timeline,
                    const std::vector<std::string>& rank_names, const std::vector<Comparison>& comparisons) {
  const std::string name = escape_html(model_name(plan));
  std::string out = html_head(fmt::format("{}: predicted training cost", name)) + "<body>\n";
  out += fmt::format("<h1>What training {} costs</h1>\n<p class=\"soft\">{}; fidelity {}, {}</p>\n<p>{}</p>\n", name,
                     escape_html(parallelism(plan)), escape_html(result.fidelity), escape_html(constants_words(result)),
                     lead_sentences(result, plan));
  for (const std::string& sentence : result.warnings)
    out += fmt::format("<p class=\"warning\">{}.</p>\n", escape_html(sentence));
  out += cards(result);
  if (result.interval) out += interval_section(result);
  if (result.cluster) out += cluster_html(result);
  if (!comparisons.empty()) out += comparison_section(comparisons);
  const std::string picture = pipeline_svg(timeline, rank_names);
  if (!picture.empty()) out += pipeline_section(picture);
  out += time_sections(result.step);
  if (result.bound_s && !result.lost.empty()) out += lost_section(result);
  if (!result.memory.ranks.empty()) {
    out += html_section(
        "Memory", "What each rank's GPU holds at its fullest, against what it has (1 GB is 10<sup>9</sup> bytes).",
        memory_bars(result.memory));
  }
  if (result.run) out += run_section(*result.run);
  if (!result.provenance.empty()) out += provenance_section(result.provenance);
  return out + html_end(plan);
}

}  // namespace plumbline::reports
