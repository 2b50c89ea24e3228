#include "reports/text/campaign/campaign_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/base/text.h"
#include "model/memory/memory.h"
#include "model/result/result.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {
namespace {

constexpr double day_s = 86400, hour_s = 3600, hours_of_day = 24;

using Row = std::vector<std::string>;

// Returns an interval in the unit that people use for it.
std::string interval_text(double seconds) {
  if (!std::isfinite(seconds)) return "never";
  constexpr double short_s = 120;
  if (seconds < short_s) return duration(seconds);
  return seconds < hour_s ? fixed(seconds / 60, 1) + " min" : number(seconds / hour_s) + " h";
}

double gpu_hours_per_day(const CampaignReport& report) {
  return hours_of_day * static_cast<double>(report.answer.input.gpus);
}

// Returns what a GPU-hour costs where the whole training costs usd() in the middle; nothing without a price or an end.
std::optional<double> middle_price(const CampaignReport& report) {
  const auto usd = report.answer.usd();
  const double price = usd ? usd->p50 / (report.answer.days.p50 * gpu_hours_per_day(report)) : 0;
  return usd && std::isfinite(price) ? std::optional(price) : std::nullopt;
}

Row quantile_row(const std::string& name, const model::Quantiles& quantiles, const auto& text) {
  return {name, text(quantiles.p10), text(quantiles.p50), text(quantiles.p90)};
}

TitledTable amounts_table(const CampaignReport& report) {
  const sim::CampaignAnswer& answer = report.answer;
  const model::Quantiles& days = answer.days;
  const double hours = gpu_hours_per_day(report);
  const auto whole = [](double value) { return std::isfinite(value) ? grouped(value) : std::string("never"); };
  TitledTable table{"", "The whole training | >p10 | >middle | >p90", {}, ""};
  table.rows.push_back(quantile_row("days", days, days_text));
  if (report.start)
    table.rows.push_back(quantile_row("ends on", days, [&](double value) {
      return std::isfinite(value) ? model::date_text(*report.start + static_cast<std::int64_t>(std::ceil(value)))
                                  : std::string("never");
    }));
  table.rows.push_back(quantile_row("GPU-hours", days.scaled(hours), whole));
  if (const auto usd = answer.usd())
    table.rows.push_back(quantile_row(
        "cost", *usd, [&](double value) { return std::isfinite(value) ? dollars(value, 2) : whole(value); }));
  table.rows.push_back(quantile_row("goodput", answer.result.goodput, [](double value) { return fixed(value, 3); }));
  table.rows.push_back(
      quantile_row("interruptions", answer.result.interruptions, [](double value) { return grouped(value); }));
  return table;
}

TitledTable time_table(const CampaignReport& report) {
  const sim::CampaignTime& time = report.answer.result.mean;
  const bool days = time.total() >= day_s;
  const auto text = [&](double seconds) { return days ? fixed(seconds / day_s, 2) : interval_text(seconds); };
  TitledTable table{"Where the time goes (mean of all campaigns, at the middle step)",
                    fmt::format("part | >{} | >share", days ? "days" : "time"),
                    {},
                    ""};
  const std::pair<const char*, double> parts[] = {
      {"steps that count", time.useful_s}, {"steps done again", time.lost_s},
      {"checkpoints", time.checkpoint_s},  {"until a failure is found", time.detect_s},
      {"restarts", time.restart_s},        {"waiting for nodes", time.wait_s},
      {"slower steps", time.slow_s},       {"planned stops and checks", time.planned_s}};
  for (const auto& [name, seconds] : parts)
    if (seconds > 0) table.rows.push_back({name, text(seconds), percent(seconds / time.total())});
  table.rows.push_back({"all", text(time.total()), percent(1)});
  return table;
}

TitledTable failures_table(const CampaignReport& report) {
  const sim::CampaignAnswer& answer = report.answer;
  TitledTable table{
      "Interruptions by component (mean of a campaign)", "component | >times | >share | >found | >repair", {}, ""};
  std::vector<std::size_t> order(answer.result.interruptions_of_mode.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t mode) { return answer.result.interruptions_of_mode[mode]; });
  constexpr double smallest = 0.01;
  double rare = 0;
  std::size_t rare_modes = 0;
  for (const std::size_t mode : order) {
    const sim::FailureMode& failure = answer.input.failures[mode];
    const double times = answer.result.interruptions_of_mode[mode];
    if (times <= 0) continue;
    const bool stops = failure.slows <= 1;
    if (stops && times < smallest * answer.result.mean_interruptions) {
      rare += times;
      ++rare_modes;
      continue;
    }
    table.rows.push_back(
        {failure.name, fixed(times, 1),
         stops ? percent(times / answer.result.mean_interruptions) : fmt::format("{:.2f} x step", failure.slows),
         failure.detect_s > 0 ? interval_text(failure.detect_s) : "",
         failure.repair_s > 0 ? interval_text(failure.repair_s) : ""});
  }
  if (rare_modes > 0)
    table.rows.push_back(
        {fmt::format("{} rarer", rare_modes), fixed(rare, 1), percent(rare / answer.result.mean_interruptions)});
  if (!table.rows.empty())
    table.note = "What makes steps longer is counted, but stops no run. A component without a repair is restarted.";
  return table;
}

TitledTable intervals_table(const CampaignReport& report) {
  TitledTable table{"Interval between checkpoints", "", {}, ""};
  const auto& points = report.answer.intervals;
  const auto used = std::ranges::find_if(
      points, [](const sim::CampaignPoint& point) { return point.name == "best" || point.name == "given"; });
  if (used == points.end()) return table;
  table.columns = fmt::format("choice | >interval | >goodput | >against {} | >days", used->name);
  for (const sim::CampaignPoint& point : points)
    table.rows.push_back({point.name, interval_text(point.value), fixed(point.goodput, 4),
                          used->goodput > 0 ? signed_percent(point.goodput / used->goodput - 1) : "",
                          days_text(point.days.p50)});
  return table;
}

TitledTable spares_table(const CampaignReport& report) {
  const sim::CampaignInput& input = report.answer.input;
  TitledTable table{"Value of a spare node", "spares | >days | >p90 | >goodput | >GPU-hours | >cost", {}, ""};
  const auto usd = middle_price(report);
  for (const sim::CampaignPoint& point : report.answer.spares) {
    const double gpus = static_cast<double>(input.gpus) + point.value * static_cast<double>(input.gpus_per_node);
    const double hours = point.days.p50 * hours_of_day * gpus;
    const bool ends = std::isfinite(hours);
    table.rows.push_back({grouped(point.value), days_text(point.days.p50), days_text(point.days.p90),
                          fixed(point.goodput, 4), ends ? grouped(hours) : "never",
                          usd && ends ? fmt::format("${}", grouped(hours * *usd)) : ""});
  }
  if (!table.rows.empty()) table.note = "GPU-hours and cost are those of the spares, too.";
  return table;
}

// Returns with what probability the deadline holds, in the words of `plan --deadline`, and the P90 to compare.
std::string deadline_words(const sim::CampaignOnGpus& on) {
  return fmt::format("the deadline holds with {}, p90 {}", model::chance(on.in_time, 1),
                     days_text(on.days.p90) + (std::isfinite(on.days.p90) ? " days" : ""));
}

// Returns how many numbers of GPUs could not be predicted, and why that nearest to the others could not.
std::string refused_words(const sim::FinishBy& finish) {
  std::vector<const sim::CampaignOnGpus*> refused;
  for (const sim::CampaignOnGpus& tried : finish.tried)
    if (tried.refused) refused.push_back(&tried);
  if (refused.empty()) return "";
  const bool one = refused.size() == 1;
  const sim::CampaignOnGpus& nearest = *(finish.gpus ? refused.back() : refused.front());
  return fmt::format("; {} could not be predicted and {} not looked at ({}{} GPUs: {})", refused.size(),
                     one ? "was" : "were", one ? "" : "the nearest, ", grouped(nearest.gpus), nearest.reason);
}

std::string finish_sentence(const CampaignReport& report) {
  const sim::FinishBy& finish = *report.answer.finish;
  const std::string by = report.start ? "by " + model::date_text(*report.start + static_cast<std::int64_t>(finish.days))
                                      : fmt::format("within {} days", days_text(finish.days));
  const auto is_answer = [&](const sim::CampaignOnGpus& tried) { return tried.gpus == finish.gpus; };
  const bool too_little = std::ranges::any_of(
      finish.tried, [](const sim::CampaignOnGpus& tried) { return !tried.refused && !tried.reason.empty(); });
  if (const auto found = std::ranges::find_if(finish.tried, is_answer); found != finish.tried.end())
    return fmt::format(
        "{} GPUs end {} in nine of ten cases ({}); fewer of those over which the batch divides do not{}{}.",
        grouped(found->gpus), by, deadline_words(*found), too_little ? ", or may not fit in memory" : "",
        refused_words(finish));
  std::vector<sim::CampaignOnGpus> ran = finish.tried;
  std::erase_if(ran, [](const sim::CampaignOnGpus& tried) { return !tried.reason.empty(); });
  const auto p90 = [](const sim::CampaignOnGpus& tried) { return tried.days.p90; };
  const sim::CampaignOnGpus& fastest = *std::ranges::min_element(ran, {}, p90);
  return fmt::format(
      "No number of GPUs up to {}, over which the batch divides, ends {} in nine of ten cases (on {} {}){}.",
      grouped(ran.back().gpus), by, grouped(fastest.gpus), deadline_words(fastest), refused_words(finish));
}

TitledTable finish_table(const CampaignReport& report) {
  TitledTable table{"GPUs and the deadline", ">GPUs | >step | >days | >p90 | >in time", {}, ""};
  if (!report.answer.finish) return table;
  bool not_run = false;
  for (const sim::CampaignOnGpus& tried : report.answer.finish->tried) {
    if (tried.refused) continue;
    const std::string gpus = grouped(tried.gpus);
    if (tried.reason.empty())
      table.rows.push_back({gpus, duration(tried.step_s), days_text(tried.days.p50), days_text(tried.days.p90),
                            model::chance(tried.in_time, 1)});
    else
      table.rows.push_back({gpus, "", "", "", "", tried.reason});
    not_run = not_run || !tried.reason.empty();
  }
  if (not_run) table.columns += " | why not";
  table.note = finish_sentence(report);
  return table;
}

TitledTable published_table(const CampaignReport& report) {
  TitledTable table{"Against published figures", "quantity | >predicted | >published | unit | >error", {}, ""};
  for (const Comparison& row : report.comparisons)
    table.rows.push_back({row.name, number(row.predicted), number(row.published), row.unit,
                          row.published != 0 ? signed_percent(row.error()) : ""});
  return table;
}

std::string checkpoint_sentence(const CampaignReport& report) {
  const auto& keys = report.plan.campaign;
  const sim::CheckpointPolicy& policy = report.answer.input.checkpoint;
  const std::string place = keys.checkpoint == "neighbour"     ? "memory of a neighbor"
                            : keys.checkpoint_storage == "ssd" ? "the nodes' SSDs"
                                                               : "the parallel storage";
  return fmt::format(
      "Checkpoints: {} to {}, every {}; the run stands for {}, they may be used after {} and are read in {}.",
      keys.checkpoint == "neighbour" ? "asynchronous" : keys.checkpoint, place,
      interval_text(report.answer.result.checkpoint_interval_s), duration(policy.stall_s), duration(policy.write_s),
      duration(policy.load_s));
}

std::string phases_sentence(const CampaignReport& report) {
  const auto& phases = report.answer.input.phases;
  if (phases.size() < 2) return "";
  std::string text = "Phases: ";
  for (const sim::CampaignPhase& phase : phases)
    text += fmt::format("{}{} ({} tokens, {} a step)", &phase == &phases.front() ? "" : ", ", phase.name,
                        scaled(phase.tokens), duration(phase.step_s));
  return text + ".";
}

// Returns the middle with the phases that the plan states; empty without any.
std::string stated_sentence(const CampaignReport& report) {
  const auto& run = report.answer.run;
  if (!run || run->phases.size() < 2) return "";
  return fmt::format("With the phases that are stated, in the middle: {} GPU-hours{}.", grouped(run->total_gpu_hours),
                     run->total_cost_usd ? fmt::format(", ${}", grouped(*run->total_cost_usd)) : "");
}

std::vector<TitledTable> campaign_tables(const CampaignReport& report) {
  std::vector<TitledTable> tables;
  if (report.answer.result.finished > 0)
    tables = {amounts_table(report), time_table(report), failures_table(report), intervals_table(report),
              spares_table(report)};
  tables.push_back(finish_table(report));
  tables.push_back(published_table(report));
  return tables;
}

std::vector<std::string> campaign_sentences(const CampaignReport& report) {
  const sim::CampaignAnswer& answer = report.answer;
  const sim::CampaignInput& input = answer.input;
  std::vector<std::string> sentences;
  const double between = answer.result.hours_between_failures;
  sentences.push_back(fmt::format(
      "Failures as in {} ({}): {}.", report.reliability.name, report.reliability.description,
      std::isfinite(between) ? fmt::format("one every {}", interval_text(between * hour_s)) : "none stops the run"));
  sentences.push_back(checkpoint_sentence(report));
  std::string spares = fmt::format("Spare nodes: {}", input.spare_nodes);
  if (!report.plan.campaign.spare_nodes) spares += ", the fewest that are hardly waited for";
  if (input.elastic) spares += "; then fewer replicas train";
  if (input.spare_nodes > 0 && answer.run)
    spares += fmt::format("; GPU-hours and cost do not count theirs ({} more)", percent(answer.share_of_spares()));
  sentences.push_back(
      fmt::format("{}. A restart takes {} and the load of the checkpoint.", spares, interval_text(input.restart_s)));
  sentences.push_back(phases_sentence(report));
  sentences.push_back(stated_sentence(report));
  std::erase(sentences, "");
  if (report.step.interval)
    sentences.push_back(
        fmt::format("The ranges are those of {} campaigns and of the step ({} in eight of ten cases). {}", input.seeds,
                    seconds_span(report.step.interval->time_s), left_sentence(*report.step.interval)));
  else
    sentences.push_back(fmt::format("The ranges are those of {} campaigns at the predicted step.", input.seeds));
  return sentences;
}

}  // namespace

std::string never_sentence(const CampaignReport& report) {
  const sim::CampaignResult& result = report.answer.result;
  if (result.never.empty()) return "";
  if (report.answer.never_ends()) return fmt::format("The training never finishes, because {}.", result.never);
  return fmt::format("{} of the campaigns never finish, because {}.", percent(1 - result.finished), result.never);
}

std::string stopped_words(const sim::CampaignAnswer& answer, std::int64_t seeds) {
  if (!answer.result.complete) return fmt::format(" after {} of {} campaigns", answer.input.seeds, seeds);
  return fmt::format(" after all {} campaigns, before all comparisons with others were made", seeds);
}

std::string campaign_text(const CampaignReport& report, Style style) {
  std::string out = plan_title(report.plan, report.step.device, style);
  out += wrapped(
      fmt::format("step {}, {}", duration(model::middle_step(report.step).time_s), constants_words(report.step)));
  if (const model::Memory& memory = report.step.memory; model::fit_of(memory) != model::Fit::fits)
    out += wrapped(fmt::format("memory {}: it fits with {}; `memory` lists what would make it fit",
                               model::to_string(model::fit_of(memory)), model::chance(memory.fit_probability(), 1)));
  if (const std::string never = never_sentence(report); !never.empty()) out += "\n" + paragraph(never);
  out += sections(campaign_tables(report), style) + heading("What it rests on", style);
  for (const std::string& sentence : campaign_sentences(report)) out += paragraph(sentence);
  return out;
}

std::string campaign_csv(const CampaignReport& report) {
  std::string out = "record,campaign,days,what,lost_s,progress\n";
  const sim::CampaignResult& result = report.answer.result;
  for (const sim::CampaignEvent& event : result.events)
    out += fmt::format("event,0,{},\"{}\",{},{}\n", event.time_s / day_s, event.what, event.lost_s, event.progress);
  for (std::size_t i = 0; i < result.days_of_seed.size(); ++i) {
    const double days = result.days_of_seed[i];
    // A cell without a number is empty, as in every other table: no reader of numbers takes "inf" for one.
    out += std::isfinite(days) ? fmt::format("campaign,{},{},finished,,1\n", i, days)
                               : fmt::format("campaign,{},,never finishes,,\n", i);
  }
  return out;
}

}  // namespace plumbline::reports
