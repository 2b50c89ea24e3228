#include "calibrate/validate/detail/case_rows.h"

#include <fmt/format.h>

#include <cstddef>
#include <initializer_list>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::size_t most = 10'000;

tl::unexpected<model::Error> wrong(std::string message) {
  return model::wrong_input("", std::move(message), "alternatives are written {one,two}, not nested");
}

using Link = AllToAllQuestion::Link;

constexpr double bytes_per_gb = 1e9, s_per_us = 1e-6;

using Size = std::pair<std::string_view, std::int64_t*>;  // column, destination of its value

model::Result<void> read_sizes(const CsvTable& table, std::size_t row, std::initializer_list<Size> sizes) {
  for (const auto& [column, size] : sizes) *size = TRY(table.whole(row, column));
  return {};
}

model::Result<AllToAllQuestion> question_of(const CsvTable& table, std::size_t row) {
  AllToAllQuestion question;
  TRY(read_sizes(table, row,
                 {{"ep", &question.ranks},
                  {"tokens_per_rank", &question.tokens},
                  {"hidden", &question.hidden},
                  {"topk", &question.experts_per_token},
                  {"groups", &question.nodes_per_token}}));
  if (question.ranks == 1) return table.wrong(row, "ep", "one rank has nothing to send");
  if (question.experts % question.ranks != 0)
    return table.wrong(row, "ep",
                       fmt::format("{} experts do not divide over '{}' ranks", question.experts, question.ranks));
  const auto type = model::parse_precision(table.text(row, "dispatch_dtype"));
  if (!type) return table.wrong(row, "dispatch_dtype", type.error().message);
  question.dispatched = *type;
  const std::string& link = table.text(row, "link");
  if (link != "NVLink" && link != "RDMA")
    return table.wrong(row, "link", fmt::format("'{}' is neither NVLink nor RDMA", link));
  question.link = link == "RDMA" ? Link::nic : Link::nvlink;
  return question;
}

model::Result<PublishedAllToAll> all_to_all_of(const CsvTable& table, std::size_t row) {
  const auto question = TRY(question_of(table, row));
  const bool physical = question.link == Link::nic;
  const auto dispatch = TRY(table.positive(row, physical ? "physical_ib_dispatch_gbps" : "dispatch_gbps"));
  const auto combine = TRY(table.positive(row, physical ? "physical_ib_combine_gbps" : "combine_gbps"));
  return PublishedAllToAll{table.text(row, "id"), table.text(row, "source"), question, dispatch * bytes_per_gb,
                           combine * bytes_per_gb};
}

model::Result<PublishedGemm> gemm_of(const CsvTable& table, std::size_t row) {
  PublishedGemm published{table.text(row, "id"), table.text(row, "kernel"), table.text(row, "source"), {}, 0};
  GemmQuestion& gemm = published.gemm;
  TRY(read_sizes(table, row, {{"groups", &gemm.groups}, {"m", &gemm.m}, {"n", &gemm.n}, {"k", &gemm.k}}));
  const auto time = TRY(table.positive(row, "time_us"));
  published.seconds = time * s_per_us;
  // "fp8_e4m3 1x128/128x128 scales -> bf16": the operands' format comes first.
  const std::string_view dtype = table.text(row, "dtype");
  const auto type = model::parse_precision(dtype.substr(0, dtype.find_first_of("_ ")));
  if (!type) return table.wrong(row, "dtype", fmt::format("'{}' begins with no known number format", dtype));
  gemm.type = *type;
  return published;
}

}  // namespace

model::Error about_row(const std::string& id, std::string message, std::string hint) {
  return {model::ErrorKind::input, std::move(message), "", 0, id, std::move(hint)};
}

model::Result<model::Plan> plan_of_row(const std::string& id, const std::vector<std::string>& changes) {
  auto plan = model::read_plan("", id, changes);
  if (!plan) {
    const model::Error& error = plan.error();
    return tl::unexpected(about_row(id, fmt::format("{}: {}", error.key, error.message), error.hint));
  }
  plan->file.clear();  // there is no file: models are searched among the shipped ones
  return plan;
}

model::Result<std::vector<Alternative>> alternatives(std::string_view text) {
  std::vector<Alternative> result(1);
  const std::string_view whole = text;
  while (!text.empty()) {
    const std::size_t open = text.find_first_of("{}");
    for (Alternative& alternative : result) alternative.text += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find_first_of("{}", open + 1);
    if (text[open] == '}' || close == std::string_view::npos || text[close] == '{' || close == open + 1)
      return wrong(fmt::format("the braces of '{}' do not match", whole));
    std::vector<Alternative> extended;
    for (const Alternative& begun : result) {
      for (const std::string_view choice : model::split_at(text.substr(open + 1, close - open - 1), ',')) {
        Alternative next = begun;
        next.text += choice;
        next.choices.emplace_back(choice);
        extended.push_back(std::move(next));
      }
    }
    result = std::move(extended);
    if (result.size() > most) return wrong(fmt::format("'{}' stands for more than {} texts", whole, most));
    text.remove_prefix(close + 1);
  }
  return result;
}

std::string with_choices(std::string text, const std::vector<std::string>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string place = fmt::format("{{{}}}", i + 1);
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + choices[i].size()))
      text.replace(at, place.size(), choices[i]);
  }
  return text;
}

model::Result<std::vector<PublishedAllToAll>> read_published_all_to_alls(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {"id", "kernel_mode", "ep", "tokens_per_rank", "hidden", "topk", "groups",
                                               "dispatch_dtype", "dispatch_gbps", "combine_gbps", "link",
                                               "physical_ib_dispatch_gbps", "physical_ib_combine_gbps", "source"}));
  std::vector<PublishedAllToAll> all_to_alls;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "kernel_mode") != "normal") continue;
    all_to_alls.push_back(TRY(all_to_all_of(table, row)));
  }
  return all_to_alls;
}

model::Result<std::vector<PublishedGemm>> read_published_gemms(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {"id", "kernel", "dtype", "groups", "m", "n", "k", "time_us", "source"}));
  std::vector<PublishedGemm> gemms;
  for (std::size_t row = 0; row < table.rows(); ++row) gemms.push_back(TRY(gemm_of(table, row)));
  return gemms;
}

}  // namespace plumbline::calibrate
