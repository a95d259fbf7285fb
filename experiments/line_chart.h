// A line chart as SVG text: scores against length, losses against steps. No script, no font, no
// file beside it.
//
// Colours are the eight of Okabe and Ito (distinguishable with any colour vision); dashes and marks
// tell lines apart without colour, and beyond eight.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace longshot {

struct ChartLine {
  std::string label;
  int style = 0;  // colour, dash and mark: the same number is the same look on the whole page
  std::vector<double> x, y;
  std::vector<double> low, high;  // a band round y; empty: none
};

struct LineChart {
  std::string title;  // for screen readers
  std::string x_label, y_label;
  std::vector<ChartLine> lines;
  double y_low = 0, y_high = 1;
  bool percent = false;  // y in [0, 1], shown in per cent
  bool log_y = false;
  bool thin = false;                    // many lines: narrow, without marks
  double shade_from = 0, shade_to = 0;  // a shaded range of x with a caption; equal: none
  std::string shade_label;
  // A dashed line: one point is a level across the chart; none: no line.
  std::vector<std::pair<double, double>> reference;
  std::string reference_label;
};

std::string to_svg(const LineChart& chart);
// A short piece of the line with its mark, for a legend.
std::string legend_svg(int style);
const char* style_color(int style);

std::string escape_html(const std::string& text);

}  // namespace longshot
