/** The space next to a curve in pixels: that of the axis, and of the last time. */
export const axisWidth = 68;
export const rightPadding = 26;
