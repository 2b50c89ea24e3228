#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/detail/foreign_file.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/text_file.h"
#include "reports/html/page.h"

namespace plumbline::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> results;
  Outputs outputs;
};

model::Result<int> write_report(const CLI::App& verb, const ReportArguments& arguments) {
  std::vector<reports::PageResult> results;
  for (const std::string& path : arguments.results) {
    auto result = model::read_text_file(path).and_then(
        [&](std::string text) { return reports::read_page_result(std::move(text), path); });
    if (!result) TRY(refuse_foreign(path, "result"));
    results.push_back(TRY(std::move(result)));
  }
  TRY(arguments.outputs.write({{"-o", [&] { return reports::page_html(results, page_origin(verb)); }}}));
  return 0;
}

}  // namespace

void add_report(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("report", "Make a page of stored results, one below the other");
  const auto arguments = std::make_shared<ReportArguments>();
  verb->add_option("RESULT", arguments->results, "Files that --json of any verb wrote")->required();
  arguments->outputs.add(*verb, "-o", "Write the self-contained page to a file, or - for stdout");
  verb->get_option("-o")->required();
  verb->footer(
      "The page is that of --html, without what only the verb itself has, such as the spans of a predicted step.\n\n"
      "Examples:\n"
      "  plumbline report result.json -o result.html\n"
      "  plumbline report plan.json campaign.json serve.json -o answers.html");
  verb->callback([arguments, verb, &exit_code] { exit_code = exit_of(write_report(*verb, *arguments)); });
}

}  // namespace plumbline::cli
