#include "experiments/line_chart.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "core/streams.h"

namespace longshot {
namespace {

constexpr double kWidth = 480, kHeight = 300;
constexpr double kLeft = 58, kRight = 22, kTop = 12, kBottom = 44;
// Yellow of the eight is too pale on white and is left out; black is the text's colour and blue is
// #0072B2, both lighter in the dark.
constexpr const char* kColors[] = {"var(--blue)", "#D55E00", "#009E73",   "#CC79A7",
                                   "#E69F00",     "#56B4E9", "var(--ink)"};
constexpr int kColorCount = 7;
constexpr const char* kDashes[] = {"", "6 3", "2 3", "8 3 2 3"};

const char* dash_of(int style) {
  return kDashes[style / kColorCount % 4];
}

std::string mark(int style, double x, double y) {
  const char* color = style_color(style);
  switch (style % 4) {
    case 0:
      return fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2.6' fill='{}'/>", x, y, color);
    case 1:
      return fmt::format("<rect x='{:.1f}' y='{:.1f}' width='5' height='5' fill='{}'/>", x - 2.5,
                         y - 2.5, color);
    case 2:
      return fmt::format("<path d='M{:.1f} {:.1f}l3.2 5.4h-6.4z' fill='{}'/>", x, y - 3.4, color);
    default:
      return fmt::format("<path d='M{:.1f} {:.1f}l3.4 3.4l-3.4 3.4l-3.4 -3.4z' fill='{}'/>", x,
                         y - 3.4, color);
  }
}

// Round steps that give about `wanted` ticks.
std::vector<double> ticks(double low, double high, int wanted) {
  const double span = high - low;
  if (!(span > 0)) return {low};
  const double raw = span / wanted;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= raw) break;
  }
  std::vector<double> result;
  for (double value = std::ceil(low / step) * step; value <= high + step * 1e-9; value += step)
    result.push_back(value);
  return result;
}

std::string number(double value) {
  if (std::abs(value) >= 10000) return fmt::format("{:.0f}k", value / 1000);
  return fmt::format("{:.4g}", value);
}

}  // namespace

const char* style_color(int style) {
  return kColors[style % kColorCount];
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c;
  }
  return out;
}

std::string legend_svg(int style) {
  return fmt::format(
      "<svg class='key' viewBox='0 0 30 12' aria-hidden='true'><line x1='1' x2='29' y1='6' y2='6' "
      "stroke='{}' stroke-width='2' stroke-dasharray='{}'/>{}</svg>",
      style_color(style), dash_of(style), mark(style, 15, 6));
}

std::string to_svg(const LineChart& chart) {
  double x_low = INFINITY, x_high = -INFINITY;
  for (const ChartLine& line : chart.lines) {
    for (const double x : line.x) x_low = std::min(x_low, x), x_high = std::max(x_high, x);
  }
  if (chart.shade_to > chart.shade_from)
    x_low = std::min(x_low, chart.shade_from), x_high = std::max(x_high, chart.shade_to);
  if (!(x_high > x_low)) x_low -= 1, x_high += 1;
  if (!std::isfinite(x_low)) x_low = 0, x_high = 1;
  const auto scale = [&](double value) {
    return chart.log_y ? std::log10(std::max(value, 1e-12)) : value;
  };
  const double low = scale(chart.y_low), high = std::max(scale(chart.y_high), low + 1e-9);
  const auto px = [&](double x) {
    return kLeft + (x - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  };
  const auto py = [&](double y) {
    const double share = std::clamp((scale(y) - low) / (high - low), -0.02, 1.02);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  };

  std::string out =
      fmt::format("<svg class='chart' viewBox='0 0 {} {}' role='img' aria-label='{}'>\n", kWidth,
                  kHeight, escape_html(chart.title));
  const double bottom = kHeight - kBottom;
  if (chart.shade_to > chart.shade_from) {
    out += fmt::format("<rect class='shade' x='{:.1f}' y='{}' width='{:.1f}' height='{}'/>",
                       px(chart.shade_from), kTop, px(chart.shade_to) - px(chart.shade_from),
                       bottom - kTop);
  }
  for (const double tick : ticks(chart.y_low, chart.y_high, 5)) {
    out += fmt::format(
        "<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/>"
        "<text class='tick' text-anchor='end' x='{}' y='{:.1f}'>{}</text>\n",
        kLeft, kWidth - kRight, py(tick), py(tick), kLeft - 5, py(tick) + 4,
        chart.percent ? fmt::format("{:.0f} %", 100 * tick) : number(tick));
  }
  for (const double tick : ticks(x_low, x_high, 6)) {
    out += fmt::format("<text class='tick' text-anchor='middle' x='{:.1f}' y='{:.1f}'>{}</text>\n",
                       px(tick), bottom + 14, number(tick));
  }
  out += fmt::format("<line class='axis' x1='{}' x2='{}' y1='{}' y2='{}'/>\n", kLeft,
                     kWidth - kRight, bottom, bottom);
  out += fmt::format("<text class='label' text-anchor='middle' x='{:.1f}' y='{}'>{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_html(chart.x_label));
  out += fmt::format(
      "<text class='label' text-anchor='middle' transform='translate(12 {:.1f}) "
      "rotate(-90)'>{}</text>\n",
      (kTop + bottom) / 2, escape_html(chart.y_label));
  if (!chart.reference.empty()) {
    auto reference = chart.reference;
    if (reference.size() == 1)
      reference = {{x_low, reference[0].second}, {x_high, reference[0].second}};
    std::string points;
    for (const auto& [x, y] : reference) points += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
    out += fmt::format("<polyline class='reference' fill='none' points='{}'/>\n", points);
  }
  for (const ChartLine& line : chart.lines) {
    if (line.low.size() != line.x.size() || line.x.size() < 2) continue;
    std::string points;
    for (size_t i = 0; i < line.x.size(); ++i)
      points += fmt::format("{:.1f},{:.1f} ", px(line.x[i]), py(line.high[i]));
    for (size_t i = line.x.size(); i-- > 0;)
      points += fmt::format("{:.1f},{:.1f} ", px(line.x[i]), py(line.low[i]));
    out += fmt::format("<polygon class='band' fill='{}' points='{}'/>\n", style_color(line.style),
                       points);
  }
  for (const ChartLine& line : chart.lines) {
    std::string points, marks;
    const bool few = !chart.thin && line.x.size() <= 40;
    for (size_t i = 0; i < line.x.size(); ++i) {
      if (!std::isfinite(line.y[i])) continue;
      points += fmt::format("{:.1f},{:.1f} ", px(line.x[i]), py(line.y[i]));
      if (few) marks += mark(line.style, px(line.x[i]), py(line.y[i]));
    }
    out += fmt::format(
        "<g><title>{}</title><polyline fill='none' stroke='{}' stroke-width='{}' "
        "stroke-dasharray='{}' points='{}'/>{}</g>\n",
        escape_html(line.label), style_color(line.style), chart.thin ? "1.1" : "1.8",
        dash_of(line.style), points, marks);
  }
  // Words last and with a halo: no line runs through them.
  if (chart.shade_to > chart.shade_from) {
    out += fmt::format("<text class='note' x='{:.1f}' y='{:.1f}'>{}</text>\n",
                       px(chart.shade_from) + 4, bottom - 6, escape_html(chart.shade_label));
  }
  if (!chart.reference.empty()) {
    const double level = py(chart.reference.back().second);
    const bool room_below = bottom - level > 18;
    out += fmt::format("<text class='note' text-anchor='end' x='{}' y='{:.1f}'>{}</text>\n",
                       kWidth - kRight - 2, level + (room_below ? 13 : -5),
                       escape_html(chart.reference_label));
  }
  return out + "</svg>\n";
}

}  // namespace longshot
