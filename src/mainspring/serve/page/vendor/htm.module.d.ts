// What the page uses of htm, for `tsc`; browsers never ask for it.
declare const htm: { bind(make: (...parts: any[]) => any): (texts: TemplateStringsArray, ...values: any[]) => any };
export default htm;
