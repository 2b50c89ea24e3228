#include "calibrate/measurement/csv_table.h"
#include "calibrate/validate/serving/serving_case.h"

namespace plumbline::calibrate {

model::Result<std::vector<ExampleFigure>> load_example_figures(const std::string& path) {
  const auto table =
      TRY(CsvTable::read(path, {"plan", "quantity", "name", "value", "unit", "scale", "reason", "source"}));
  std::vector<ExampleFigure> figures;
  for (std::size_t row = 0; row < table.rows(); ++row)
    figures.push_back({table.text(row, "plan"), table.text(row, "quantity"), table.text(row, "name"),
                       TRY(table.positive(row, "value")), table.text(row, "unit"), TRY(table.positive(row, "scale")),
                       table.text(row, "reason"), table.text(row, "source")});
  return figures;
}

}  // namespace plumbline::calibrate
