// What the page uses of Preact, for `tsc`; browsers never ask for it.
export function h(type: any, props?: any, ...children: any[]): any;
export function render(node: any, into: Element): void;
